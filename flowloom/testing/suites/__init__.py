"""Suites: the rules that parts of a kind have to keep, as tests for you to subclass.

Each is a class whose test methods check the part that you make: a session or artifact service, a model, a toolset, a
processor, a courier of runs. They need pytest (`pip install "flowloom[test]"`), and no plugin for asynchronous tests.
"""

from flowloom.extras import missing_extra

try:
    from flowloom.testing.suites.artifact_service import ArtifactServiceSuite
    from flowloom.testing.suites.courier import CourierSuite
    from flowloom.testing.suites.model import ModelSuite
    from flowloom.testing.suites.model_faults import Fault
    from flowloom.testing.suites.processor import ProcessorSuite
    from flowloom.testing.suites.session_service import SessionServiceSuite
    from flowloom.testing.suites.toolset import ToolsetSuite
except ModuleNotFoundError as error:
    raise missing_extra("The suites need pytest", "test", error) from error

__all__ = [
    "ArtifactServiceSuite",
    "CourierSuite",
    "Fault",
    "ModelSuite",
    "ProcessorSuite",
    "SessionServiceSuite",
    "ToolsetSuite",
]
