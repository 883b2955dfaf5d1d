"""The writer drafts, the reviewer remarks or approves, at most five rounds."""

from flowloom import LlmAgent, LoopAgent, exit_loop

MODEL = "gemini-2.5-flash"

writer = LlmAgent(
    name="writer",
    model=MODEL,
    description="Drafts a short text.",
    instruction="Write a paragraph about what the user asks for. Improve it as the reviewer says.",
    output_key="draft",
)

reviewer = LlmAgent(
    name="reviewer",
    model=MODEL,
    description="Reviews a draft.",
    instruction="Review the latest draft. If it is good, call `exit_loop`. Otherwise name the one thing to improve.",
    tools=[exit_loop],
)

root_agent = LoopAgent(
    name="review_loop",
    description="Writes a text and improves it until it is good.",
    sub_agents=[writer, reviewer],
    max_iterations=5,
)
