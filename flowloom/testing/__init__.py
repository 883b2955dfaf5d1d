"""Testing: models that answer from a script or a function."""

from flowloom.testing.scripted import Answer, FunctionModel, ScriptedModel, ScriptExhaustedError, call, chunks_of

__all__ = ["Answer", "FunctionModel", "ScriptExhaustedError", "ScriptedModel", "call", "chunks_of"]
