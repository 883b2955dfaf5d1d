"""A person as the model: requests wait in a queue, and a person answers them.

It imports `inspection`, `providers` and the rooms below. Begin with `model.py`; `queue.py` keeps the requests.
"""

from flowloom.errors import AnswerError, RequestNotFoundError, RequestOverError, UnfitAnswerError
from flowloom.human.answers import Answer
from flowloom.human.authors import HumanObserver
from flowloom.human.forms import FormField, ToolForm
from flowloom.human.model import HumanModel
from flowloom.human.request import RequestState, WaitingRequest

__all__ = [
    "Answer",
    "AnswerError",
    "FormField",
    "HumanModel",
    "HumanObserver",
    "RequestNotFoundError",
    "RequestOverError",
    "RequestState",
    "ToolForm",
    "UnfitAnswerError",
    "WaitingRequest",
]
