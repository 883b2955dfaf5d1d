"""The public surface of google-adk 2.13 that its users write, by class or module, which `docs/migrating.md` maps."""

from __future__ import annotations

NAMES = """
Agent Context Event Runner Workflow LlmAgent BaseAgent SequentialAgent ParallelAgent LoopAgent InvocationContext
RunConfig LiveRequest LiveRequestQueue ManagedAgent McpInstructionProvider LangGraphAgent RemoteA2aAgent
StreamingMode ToolThreadPoolConfig CallbackContext ReadonlyContext InMemoryRunner EventActions RequestInput
EventCompaction NodeInfo BaseLlm LlmRequest LlmResponse LLMRegistry Gemini Gemma LiteLlm Claude ApigeeLlm FallbackModel
LlmCapabilities ServiceTier BaseLlmConnection Session State BaseSessionService InMemorySessionService
DatabaseSessionService VertexAiSessionService StateSchemaError SqliteSessionService GetSessionConfig
ListSessionsResponse BaseTool FunctionTool LongRunningFunctionTool AgentTool ToolContext ExampleTool exit_loop
transfer_to_agent TransferToAgentTool load_memory preload_memory load_artifacts get_user_choice request_input
google_search url_context McpToolset MCPToolset BaseToolset SetModelResponseTool SkillToolset LoadMemoryTool
PreloadMemoryTool LoadArtifactsTool AuthenticatedFunctionTool ToolConfirmation BasePlugin PluginManager LoggingPlugin
DebugLoggingPlugin ReflectAndRetryToolPlugin ReflectAndRetryModelPlugin ToolCallIntegrityPlugin App ResumabilityConfig
EventsCompactionConfig BaseEventsSummarizer LlmEventSummarizer ContextCacheConfig BasePlanner BuiltInPlanner
PlanReActPlanner BaseCodeExecutor UnsafeLocalCodeExecutor BuiltInCodeExecutor CodeExecutionInput CodeExecutionResult
BaseArtifactService InMemoryArtifactService FileArtifactService GcsArtifactService BaseMemoryService
InMemoryMemoryService SqliteMemoryService VertexAiMemoryBankService BaseNode Node node FunctionNode JoinNode Edge START
DEFAULT_ROUTE RetryConfig NodeTimeoutError StaleSessionError InvocationNotFoundError AlreadyExistsError
SessionNotFoundError NotFoundError InputValidationError ToolExecutionError AuthConfig AuthCredential
AuthCredentialTypes OAuth2Auth HttpAuth HttpCredentials ServiceAccount BaseCredentialService
InMemoryCredentialService AuthHandler OpenIdConnectWithConfig BaseLlmFlow SingleFlow AutoFlow
BaseLlmRequestProcessor BaseLlmResponseProcessor
""".split()

EXPORTED = """
A2AClientError AgentCardResolutionError validate_app_name BaseAuthProvider CodeExecutorContext VertexAiRagMemoryService
AnthropicGenerateContentConfig Gemma3Ollama ForceEscalationPlugin ModelConsultObservabilityPlugin ToolCallIntegrityError
ToolResultClassification ToolResultClassifier Frontmatter Resources Script SkillRegistry list_skills_in_dir
list_skills_in_dir_async list_skills_in_gcs_dir list_skills_in_gcs_dir_async load_skill_from_dir_async
load_skill_from_gcs_dir load_skill_from_gcs_dir_async load_skills_from_dir load_skills_from_dir_async AuthToolArguments
APIHubToolset SearchResultMode ModelConsultContextConfig ModelConsultTool RemoteMcpServer VertexAiLoadProfilesTool
ApiRegistry OpenApiSpecParser ParsedOperation OperationParser snake_to_lower_camel ToolAuthHandler
""".split()
"""What else the packages of google-adk export."""

MODULES = """
google.adk google.adk.agents google.adk.runners google.adk.events google.adk.models google.adk.models.google_llm
google.adk.sessions google.adk.sessions.sqlite_session_service google.adk.tools google.adk.tools.tool_context
google.adk.tools.tool_confirmation google.adk.tools.authenticated_function_tool google.adk.plugins google.adk.apps
google.adk.apps.app google.adk.planners google.adk.code_executors google.adk.artifacts google.adk.memory
google.adk.auth google.adk.errors google.adk.workflow google.adk.flows.llm_flows google.adk.agents.context_cache_config
""".split()

MEMBERS = {
    "BaseAgent": "name description parent_agent sub_agents before_agent_callback after_agent_callback run_async "
    "run_live _run_async_impl _run_live_impl root_agent find_agent find_sub_agent clone "
    "canonical_before_agent_callbacks canonical_after_agent_callbacks from_config rerun_on_resume wait_for_output "
    "retry_config timeout input_schema output_schema state_schema",
    "LlmAgent": "model instruction global_instruction static_instruction tools generate_content_config mode "
    "parallel_worker disallow_transfer_to_parent disallow_transfer_to_peers include_contents input_schema "
    "output_schema output_key planner code_executor before_model_callback after_model_callback "
    "on_model_error_callback before_tool_callback after_tool_callback on_tool_error_callback canonical_model "
    "canonical_model_async canonical_instruction canonical_tools _llm_flow set_default_model",
    "LoopAgent": "max_iterations",
    "BasePlugin": "name on_user_message_callback before_run_callback on_event_callback after_run_callback "
    "before_agent_callback after_agent_callback before_model_callback after_model_callback on_model_error_callback "
    "before_tool_callback after_tool_callback on_tool_error_callback on_agent_error_callback on_run_error_callback "
    "close",
    "PluginManager": "plugins close_timeout register_plugin get_plugin run_before_model_callback",
    "Runner": "app app_name agent node plugins artifact_service session_service memory_service credential_service "
    "plugin_close_timeout auto_create_session run run_async run_live run_debug rewind_async close "
    "_new_invocation_context _find_agent_to_run _append_new_message_to_session _collect_toolset",
    "InMemoryRunner": "agent node app_name plugins app plugin_close_timeout",
    "Runner.run": "user_id session_id new_message state_delta run_config",
    "Runner.run_async": "user_id session_id invocation_id new_message state_delta run_config yield_user_message "
    "abort_signal",
    "Runner.run_debug": "user_messages user_id session_id run_config quiet verbose",
    "Runner.rewind_async": "user_id session_id rewind_before_invocation_id run_config",
    "RunConfig": "streaming_mode max_llm_calls custom_metadata http_options labels get_session_config "
    "model_input_context include_thoughts_from_other_agents tool_thread_pool_config telemetry service_tier support_cfc "
    "save_input_blobs_as_artifacts speech_config response_modalities avatar_config output_audio_transcription "
    "input_audio_transcription realtime_input_config explicit_vad_signal translation_config enable_affective_dialog "
    "proactivity session_resumption history_config context_window_compression save_live_blob save_live_audio",
    "Event": "invocation_id author actions output node_info long_running_tool_ids branch isolation_scope id timestamp "
    "model_version content grounding_metadata partial turn_complete turn_complete_reason interaction_status "
    "finish_reason error_code error_message interrupted custom_metadata usage_metadata live_session_resumption_update "
    "live_session_id go_away voice_activity input_transcription output_transcription avg_logprobs logprobs_result "
    "cache_metadata citation_metadata interaction_id environment_id get_function_calls get_function_responses "
    "is_final_response has_trailing_code_execution_result new_id message node_name",
    "EventActions": "skip_summarization state_delta artifact_delta transfer_to_agent transfer_reason escalate "
    "requested_auth_configs requested_tool_confirmations compaction end_of_agent agent_state "
    "rewind_before_invocation_id route render_ui_widgets set_model_response",
    "BaseSessionService": "create_session get_session list_sessions delete_session get_user_state append_event flush",
    "Session": "id app_name user_id state events last_update_time",
    "State": "value delta schema APP_PREFIX USER_PREFIX TEMP_PREFIX get setdefault update to_dict has_delta",
    "ReadonlyContext": "user_content invocation_id agent_name state session user_id run_config custom_metadata "
    "is_aborted get_credential",
    "Context": "state actions session function_call_id tool_confirmation branch custom_metadata load_artifact "
    "save_artifact list_artifacts get_artifact_version save_credential load_credential request_credential "
    "get_auth_response request_confirmation add_session_to_memory add_events_to_memory add_memory search_memory "
    "delete_memory render_ui_widget run_node get_invocation_context node node_path run_id attempt_count resume_inputs "
    "output route interrupt_ids event_author",
    "InvocationContext": "artifact_service session_service memory_service credential_service app_name user_id "
    "invocation_id branch agent user_content session agent_states end_of_agents end_invocation live_request_queue "
    "run_config resumability_config plugin_manager canonical_tools_cache is_resumable is_aborted abort "
    "increment_llm_call_count should_pause_invocation",
    "BaseLlm": "model generate_content_async connect supported_models capabilities",
    "LlmRequest": "model contents config live_connect_config tools_dict cache_config cache_metadata "
    "cacheable_contents_token_count previous_interaction_id service_tier append_instructions append_tools "
    "set_output_schema",
    "LLMRegistry": "register resolve new_llm",
    "BaseTool": "name description is_long_running custom_metadata behavior response_scheduling _get_declaration "
    "run_async process_llm_request check_require_confirmation",
    "FunctionTool": "func require_confirmation",
    "AgentTool": "agent skip_summarization include_plugins propagate_grounding_metadata",
    "BaseToolset": "tool_filter tool_name_prefix get_tools get_tools_with_prefix process_llm_request get_auth_config "
    "close",
    "BaseArtifactService": "save_artifact load_artifact list_artifact_keys delete_artifact list_versions "
    "list_artifact_versions get_artifact_version",
    "BaseMemoryService": "add_session_to_memory add_events_to_memory add_memory search_memory delete_memory",
    "BasePlanner": "build_planning_instruction process_planning_response",
    "BaseCodeExecutor": "execute_code optimize_data_file stateful error_retry_attempts code_block_delimiters "
    "execution_result_delimiters timeout_seconds",
    "App": "name root_agent plugins events_compaction_config context_cache_config resumability_config",
    "ResumabilityConfig": "is_resumable",
    "EventsCompactionConfig": "summarizer compaction_interval overlap_size token_threshold event_retention_size",
    "BaseEventsSummarizer": "maybe_summarize_events",
    "ContextCacheConfig": "cache_intervals ttl_seconds min_tokens create_http_options",
    "BaseLlmFlow": "request_processors tool_request_processors response_processors get_request_processor "
    "replace_request_processor insert_request_processor_before insert_request_processor_after "
    "remove_request_processor",
}
"""Fields, methods and parameters."""
