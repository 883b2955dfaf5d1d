"""`ArtifactServiceSuite`: a store that outlives its service passes, and each rule finds a store that breaks it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar

import pytest
from google.genai import types

from flowloom.artifacts import ArtifactVersion, BaseArtifactService, InMemoryArtifactService
from flowloom.errors import ArtifactNotFoundError, InputValidationError
from flowloom.testing.suites.artifact_service import ArtifactServiceSuite

from .rules import breaks, rules_of


class Store(InMemoryArtifactService):
    """A store in memory whose files another service can be given."""

    def __init__(self, files: Any = None) -> None:
        super().__init__()
        self._files = {} if files is None else files

    @property
    def files(self) -> Any:
        return self._files


class TestAStoreThatOutlivesItsService(ArtifactServiceSuite):
    async def make_service(self) -> Store:
        return Store()

    async def reopen(self, service: Any) -> Store:
        return Store(service.files)


class CountsFromOne(Store):
    async def save_artifact(self, **fields: Any) -> int:
        return 1 + await super().save_artifact(**fields)


class LoadsTheFirst(Store):
    async def load_artifact(self, *, version: int | None = None, **fields: Any) -> types.Part | None:
        return await super().load_artifact(version=version or 0, **fields)


class TakesZeroForTheLatest(Store):
    async def load_artifact(self, *, version: int | None = None, **fields: Any) -> types.Part | None:
        return await super().load_artifact(version=version or None, **fields)


class LoadsTheLatestInstead(Store):
    async def load_artifact(self, *, version: int | None = None, **fields: Any) -> types.Part | None:
        return await super().load_artifact(version=version, **fields) or await super().load_artifact(**fields)


class SortsNumbersAsText(Store):
    async def list_artifact_versions(self, **fields: Any) -> list[ArtifactVersion]:
        return sorted(await super().list_artifact_versions(**fields), key=lambda info: str(info.version))


class KeepsNumbersOfTheDeleted(Store):
    async def delete_artifact(self, *, version: int | None = None, **fields: Any) -> None:
        numbers = [version] if version is not None else await self.list_versions(**fields)
        for number in numbers:
            await super().delete_artifact(version=number, **fields)


class DeletesWholeFiles(Store):
    async def delete_artifact(self, *, version: int | None = None, **fields: Any) -> None:
        await super().delete_artifact(**fields)


class GivesNumbersAgain(Store):
    async def delete_artifact(self, *, version: int | None = None, **fields: Any) -> None:
        await super().delete_artifact(version=version, **fields)
        for files in self.files.values():
            for versions in files.values():
                while versions and versions[-1] is None:
                    versions.pop()


class RefusesToDeleteTwice(Store):
    async def delete_artifact(self, *, version: int | None = None, **fields: Any) -> None:
        if await self.load_artifact(version=version, **fields) is None:
            raise ArtifactNotFoundError("It is not there.")
        await super().delete_artifact(version=version, **fields)


class ListsUnsorted(Store):
    async def list_artifact_keys(self, **fields: Any) -> list[str]:
        return (await super().list_artifact_keys(**fields))[::-1]


class Renames(Store):
    """Changes the place of a file before it is looked up."""

    def renamed(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields

    async def save_artifact(self, **fields: Any) -> int:
        return await super().save_artifact(**self.renamed(fields))

    async def load_artifact(self, **fields: Any) -> types.Part | None:
        return await super().load_artifact(**self.renamed(fields))

    async def delete_artifact(self, **fields: Any) -> None:
        await super().delete_artifact(**self.renamed(fields))

    async def list_artifact_versions(self, **fields: Any) -> list[ArtifactVersion]:
        return await super().list_artifact_versions(**self.renamed(fields))


class KeepsUserFilesBySession(Renames):
    def renamed(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields | {"user_id": f"{fields['user_id']}{fields.get('session_id')}"}

    async def list_artifact_keys(self, **fields: Any) -> list[str]:
        return await super().list_artifact_keys(**self.renamed(fields))


class ListsAllSessions(Store):
    async def list_artifact_keys(self, *, session_id: str | None = None, **fields: Any) -> list[str]:
        return sorted({name for files in self.files.values() for name in files})


class ForgetsTheUser(Renames):
    def renamed(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields | {"user_id": "anyone"}

    async def list_artifact_keys(self, **fields: Any) -> list[str]:
        return await super().list_artifact_keys(**self.renamed(fields))


class FoldsCase(Renames):
    def renamed(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields | {"filename": fields["filename"].lower()}


class FoldsOwners(Renames):
    def renamed(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields | {"user_id": fields["user_id"].lower()}


class TakesSlashes(Renames):
    def renamed(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields | {"filename": fields["filename"].replace("/", "_")}


class NeedsNoSession(Renames):
    def renamed(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields | {"session_id": fields.get("session_id") or "any"}


class StoresNothing(Store):
    async def save_artifact(self, *, artifact: Any, **fields: Any) -> int:
        try:
            return await super().save_artifact(artifact=artifact, **fields)
        except InputValidationError:
            if not isinstance(artifact, types.Part) or artifact.function_call is None:
                raise
            return 0


class LooksBeforeItWrites(Store):
    async def save_artifact(self, **fields: Any) -> int:
        number = len(await self.list_versions(**{name: fields[name] for name in fields if name in NAMES}))
        await asyncio.sleep(0)
        await super().save_artifact(**fields)
        return number


NAMES = ("app_name", "user_id", "session_id", "filename")


class LosesDisplayNames(Store):
    async def load_artifact(self, **fields: Any) -> types.Part | None:
        part = await super().load_artifact(**fields)
        if part is not None and part.inline_data is not None:
            part.inline_data.display_name = None
        return part


class CutsLargeData(Store):
    async def load_artifact(self, **fields: Any) -> types.Part | None:
        part = await super().load_artifact(**fields)
        if part is not None and part.inline_data is not None and part.inline_data.data is not None:
            part.inline_data.data = part.inline_data.data[:1_000_000]
        return part


class RefusesDicts(Store):
    async def save_artifact(self, *, artifact: Any, **fields: Any) -> int:
        part = types.Part(text=str(artifact)) if isinstance(artifact, dict) else artifact
        return await super().save_artifact(artifact=part, **fields)


class Lends(Store):
    def __init__(self, files: Any = None) -> None:
        super().__init__(files)
        self.lent: types.Part | None = None

    async def load_artifact(self, **fields: Any) -> types.Part | None:
        self.lent = self.lent or await super().load_artifact(**fields)
        return self.lent


class LosesMetadata(Store):
    async def list_artifact_versions(self, **fields: Any) -> list[ArtifactVersion]:
        infos = await super().list_artifact_versions(**fields)
        return [info.model_copy(update={"custom_metadata": infos[-1].custom_metadata}) for info in infos]


class GuessesTypes(Store):
    async def list_artifact_versions(self, **fields: Any) -> list[ArtifactVersion]:
        infos = await super().list_artifact_versions(**fields)
        return [info.model_copy(update={"mime_type": "application/octet-stream"}) for info in infos]


class GivesFilesAnAddress(Store):
    async def list_artifact_versions(self, **fields: Any) -> list[ArtifactVersion]:
        infos = await super().list_artifact_versions(**fields)
        return [info.model_copy(update={"canonical_uri": "memory://" + fields["filename"]}) for info in infos]


BROKEN: dict[str, type[Store]] = {
    "versions_count_from_zero": CountsFromOne,
    "without_a_version_the_latest_is_meant": LoadsTheFirst,
    "each_version_can_be_loaded": TakesZeroForTheLatest,
    "what_is_not_there_is_none": LoadsTheLatestInstead,
    "versions_are_listed_lowest_first": SortsNumbersAsText,
    "deleting_a_file_deletes_all_its_versions": KeepsNumbersOfTheDeleted,
    "deleting_a_version_keeps_the_others": DeletesWholeFiles,
    "the_number_of_a_deleted_version_is_not_given_again": GivesNumbersAgain,
    "files_are_listed_sorted_with_the_users_own": ListsUnsorted,
    "a_user_file_is_shared_by_the_users_sessions": KeepsUserFilesBySession,
    "without_a_session_the_users_files_are_listed": ListsAllSessions,
    "files_are_seen_in_their_scope_only": ForgetsTheUser,
    "names_are_taken_as_they_are": FoldsCase,
    "owners_are_taken_as_they_are": FoldsOwners,
    "bad_names_are_refused": TakesSlashes,
    "a_missing_owner_is_refused": NeedsNoSession,
    "a_part_with_nothing_to_store_is_refused": StoresNothing,
    "concurrent_saves_get_different_versions": LooksBeforeItWrites,
    "parts_come_back_whole": LosesDisplayNames,
    "large_data_comes_back_whole": CutsLargeData,
    "a_dict_in_json_form_is_a_part": RefusesDicts,
    "what_is_stored_is_the_stores_own": Lends,
    "metadata_is_kept_with_its_version": LosesMetadata,
    "a_version_knows_its_mime_type": GuessesTypes,
    "a_version_has_an_address_of_its_own_and_a_time": GivesFilesAnAddress,
}
RAISING: dict[str, tuple[type[Store], type[Exception]]] = {
    "deleting_is_idempotent": (RefusesToDeleteTwice, ArtifactNotFoundError),
}
REOPENED_WRONGLY: dict[str, Callable[[Store], Store]] = {
    "what_is_stored_outlives_the_service": lambda service: Store(),
    "two_services_on_one_store_lose_no_version": lambda service: Store(deepcopy(service.files)),
}


class Suite(ArtifactServiceSuite):
    service: ClassVar[type[Store]] = Store
    again: ClassVar[Callable[[Store], Store] | None] = None

    def make_service(self) -> Store:
        return self.service()

    def reopen(self, service: BaseArtifactService) -> Store | None:
        again = type(self).again
        assert isinstance(service, Store)
        return None if again is None else again(service)


@pytest.mark.parametrize("rule", BROKEN)
def test_a_store_that_breaks_a_rule_is_found(rule: str) -> None:
    class Broken(Suite):
        service = BROKEN[rule]

    breaks(Broken, rule)


@pytest.mark.parametrize("rule", RAISING)
def test_a_store_that_raises_where_it_must_not_is_found(rule: str) -> None:
    class Broken(Suite):
        service = RAISING[rule][0]

    with pytest.raises(RAISING[rule][1]):
        getattr(Broken(), f"test_{rule}")()


@pytest.mark.parametrize("rule", REOPENED_WRONGLY)
def test_a_store_that_does_not_outlive_its_service_is_found(rule: str) -> None:
    class Broken(Suite):
        again = REOPENED_WRONGLY[rule]

    breaks(Broken, rule)


def test_every_rule_is_shown_to_fail() -> None:
    assert rules_of(ArtifactServiceSuite) == BROKEN.keys() | RAISING.keys() | REOPENED_WRONGLY.keys()


def test_rules_of_reopening_are_skipped_for_a_store_in_memory() -> None:
    for rule in REOPENED_WRONGLY:
        with pytest.raises(pytest.skip.Exception, match="reopen"):
            getattr(Suite(), f"test_{rule}")()


def test_a_suite_without_a_part_says_what_to_define() -> None:
    with pytest.raises(NotImplementedError, match=r"make_service\(self\)"):
        ArtifactServiceSuite().test_deleting_is_idempotent()
