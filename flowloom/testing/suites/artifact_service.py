"""`ArtifactServiceSuite`: what every artifact service promises (spec §20.1, decision 14)."""

from __future__ import annotations

import asyncio
import time

from google.genai import types

from flowloom.testing.suites.artifact_contents import ContentRules
from flowloom.testing.suites.artifact_place import expect_refused
from flowloom.testing.suites.loop import in_loop

ODD_NAMES = (
    *(
        "a b",
        "A",
        "a",
        "a.b",
        ".a",
        "a.",
        "..",
        "a:b",
        "a'b",
        'a"b',
        "a%b",
        "a%20b",
        "a_b",
        "a?b=c&d#e",
        "~",
        "$a",
        "*",
    ),
    *("con", "CON.txt", "nul", "ä", "a\u0308", "名前", "🧵", "a\nb", "0", "-rf", "x" * 300, "x" * 301, "user:user:a"),
)
"""Names that a store has to take as they are, and tell apart."""
BAD_NAMES = ("", " ", "user:", "user: ", "a/b", "../a", "/", "a\\b", "user:a/b", "user:../a")


class ArtifactServiceSuite(ContentRules):
    """The rules of artifact services. Subclass it in a test module, and make your service:

    ```python
    from flowloom.testing.suites import ArtifactServiceSuite


    class TestMyService(ArtifactServiceSuite):
        def make_service(self) -> MyService:
            return MyService("/tmp/artifacts")
    ```

    `make_service` may be asynchronous. Define `reopen(service)` for a store that outlives its service, and
    `close(service)` if neither its `aclose()` nor its `close()` is what ends it.
    """

    @in_loop
    async def test_versions_count_from_zero(self) -> None:
        """`save_artifact` gives 0, 1, 2, ... for each file by itself."""
        shelf = await self.shelf()
        given = [*await shelf.save("a", "x", "y"), *await shelf.save("b", "x"), *await shelf.save("a", "z")]
        assert given == [0, 1, 0, 2], f"The versions of a, a, b, a are {given}, not [0, 1, 0, 2]."

    @in_loop
    async def test_without_a_version_the_latest_is_meant(self) -> None:
        """`load_artifact` and `get_artifact_version` give the latest version unless they are asked for another."""
        shelf = await self.shelf()
        await shelf.save("a", *map(str, range(12)))
        loaded = await shelf.text("a")
        assert loaded == "11", f"Of 12 versions, number {loaded} was loaded as the latest."
        info = await shelf.info("a")
        assert info is not None, "`get_artifact_version` gave None for a file that is there."
        assert info.version == 11, f"Of 12 versions, number {info.version} is said to be the latest."

    @in_loop
    async def test_each_version_can_be_loaded(self) -> None:
        """`load_artifact` gives the version that it is asked for; 0 is the first, not the latest."""
        shelf = await self.shelf()
        await shelf.save("a", "x", "y", "z")
        loaded = [await shelf.text("a", version) for version in range(3)]
        assert loaded == ["x", "y", "z"], f"Versions 0, 1, 2 were saved as x, y, z and loaded as {loaded}."

    @in_loop
    async def test_what_is_not_there_is_none(self) -> None:
        """A missing file or version loads as None and has no versions."""
        shelf = await self.shelf()
        await shelf.save("a", "x")
        for version in (1, 99, -1):
            found = await shelf.load("a", version)
            assert found is None, f"Version {version} of a file with one version was loaded: {found!r}."
            known = await shelf.info("a", version)
            assert known is None, f"Version {version} of a file with one version is known: {known!r}."
        missing = (await shelf.load("b"), await shelf.info("b"), await shelf.versions("b"), await shelf.infos("b"))
        assert missing == (None, None, [], []), f"Of a missing file, this was found: {missing}."

    @in_loop
    async def test_versions_are_listed_lowest_first(self) -> None:
        """`list_versions` and `list_artifact_versions` are in the order of the numbers."""
        shelf = await self.shelf()
        await shelf.save("a", *map(str, range(12)))
        listed = (await shelf.versions("a"), [info.version for info in await shelf.infos("a")])
        assert listed == ([*range(12)],) * 2, f"Versions 0 to 11 are listed as {listed}."

    # -- deleting ------------------------------------------------------------------------------

    @in_loop
    async def test_deleting_a_file_deletes_all_its_versions(self) -> None:
        """`delete_artifact` without a version leaves nothing; the file starts again at 0."""
        shelf = await self.shelf()
        await shelf.save("a", "x", "y")
        await shelf.delete("a")
        left = (await shelf.names(), await shelf.versions("a"), await shelf.load("a", 0), await shelf.load("a"))
        assert left == ([], [], None, None), f"Of a deleted file, this is left: {left}."
        again = await shelf.save("a", "z")
        assert again == [0], f"A file that was deleted as a whole starts again at {again}, not [0]."

    @in_loop
    async def test_deleting_a_version_keeps_the_others(self) -> None:
        """`delete_artifact` with a version takes that one only; the latest of the others is the latest."""
        shelf = await self.shelf()
        await shelf.save("a", "x", "y", "z")
        await shelf.delete("a", 1)
        assert await shelf.versions("a") == [0, 2], (
            f"Without version 1, {await shelf.versions('a')} is left of 0, 1, 2."
        )
        assert await shelf.load("a", 1) is None, "A deleted version was loaded."
        await shelf.delete("a", 2)
        assert await shelf.text("a") == "x", f"Of version 0 alone, {await shelf.text('a')!r} was loaded, not 'x'."

    @in_loop
    async def test_the_number_of_a_deleted_version_is_not_given_again(self) -> None:
        """Numbers only grow as long as the file exists, even if all of its versions are deleted one by one."""
        shelf = await self.shelf()
        await shelf.save("a", "x", "y")
        await shelf.delete("a", 1)
        given = await shelf.save("a", "z")
        assert given == [2], f"After version 1 was deleted, version {given} was given, not [2]."
        await shelf.save("b", "x")
        await shelf.delete("b", 0)
        assert await shelf.names() == ["a"], "A file without a version is listed."
        given = await shelf.save("b", "y")
        assert given == [1], f"After the only version was deleted, version {given} was given, not [1]."

    @in_loop
    async def test_deleting_is_idempotent(self) -> None:
        """`delete_artifact` of what is not there changes nothing and raises nothing."""
        shelf = await self.shelf()
        await shelf.save("a", "x")
        for name, version in (("b", None), ("b", 0), ("a", 1), ("a", -1)):
            await shelf.delete(name, version)
        kept = await shelf.text("a")
        assert kept == "x", f"Deleting what is not there left {kept!r} of a file of 'x'."

    # -- scopes --------------------------------------------------------------------------------

    @in_loop
    async def test_files_are_listed_sorted_with_the_users_own(self) -> None:
        """`list_artifact_keys` gives the names of a session's files and of the user's, sorted together."""
        shelf = await self.shelf()
        for name in ("z", "user:b", "a", "user:a"):
            await shelf.save(name, "x", "y")
        listed = await shelf.names()
        assert listed == ["a", "user:a", "user:b", "z"], f"The files z, user:b, a, user:a are listed as {listed}."

    @in_loop
    async def test_a_user_file_is_shared_by_the_users_sessions(self) -> None:
        """A file named `user:...` is one file for all sessions of its user, and needs none."""
        shelf = await self.shelf()
        await shelf.save("user:a", "x")
        for session in ("s2", None):
            elsewhere = shelf.other(session=session)
            found = (await elsewhere.text("user:a"), await elsewhere.names())
            assert found == ("x", ["user:a"]), f"From session {session}, a user's file is seen as {found}."
        given = await shelf.other(session=None).save("user:a", "y")
        assert given == [1], f"A user's file was saved again from elsewhere as version {given}, not [1]."

    @in_loop
    async def test_without_a_session_the_users_files_are_listed(self) -> None:
        """`list_artifact_keys` without a session gives the user's files only."""
        shelf = await self.shelf()
        await shelf.save("user:a", "x")
        await shelf.save("b", "x")
        listed = await shelf.other(session=None).names()
        assert listed == ["user:a"], f"Without a session, {listed} is listed, not ['user:a']."

    @in_loop
    async def test_files_are_seen_in_their_scope_only(self) -> None:
        """A session's file is not seen by another session, a user's not by another user, and no file by another app."""
        shelf = await self.shelf()
        await shelf.save("a", "x")
        await shelf.save("user:a", "x")
        for seen_from, files in (
            (shelf.other(session="s2"), ("a",)),
            (shelf.other(user="bob"), ("a", "user:a")),
            (shelf.other(app=shelf.app + "-b"), ("a", "user:a")),
        ):
            names, found = await seen_from.names(), [name for name in files if await seen_from.load(name) is not None]
            assert found == [], f"The files {found} were loaded from elsewhere: {seen_from.where}."
            assert not set(names) & set(files), f"The files {names} were listed elsewhere: {seen_from.where}."

    @in_loop
    async def test_names_are_taken_as_they_are(self) -> None:
        """Any names without slashes are told apart: capitals, dots, spaces, any script, and very long ones."""
        shelf = await self.shelf()
        names = [*ODD_NAMES, *(f"user:{name}" for name in ODD_NAMES)]
        given = {name: await shelf.save(name, name) for name in names}
        mixed = [name for name in names if given[name] != [0] or await shelf.text(name) != name]
        assert not mixed, f"These files were mixed up with others: {mixed}."
        wrong = set(names) ^ set(await shelf.names())
        assert not wrong, f"These names are missing from the list, or were not saved: {wrong}."

    @in_loop
    async def test_owners_are_taken_as_they_are(self) -> None:
        """Apps, users and sessions may have any names, and are told apart."""
        shelf = await self.shelf()
        odd = [*ODD_NAMES, "/", "a/b", "../..", "a\\b"]
        owners = [shelf.other(user=name) for name in odd] + [shelf.other(session=name) for name in odd]
        for number, owner in enumerate(owners):
            await owner.save("f", str(number))
        mixed = [owner.where for number, owner in enumerate(owners) if await owner.text("f", 0) != str(number)]
        assert not mixed, f"The files of these owners were mixed up with others': {mixed}."

    # -- what is refused -----------------------------------------------------------------------

    @in_loop
    async def test_bad_names_are_refused(self) -> None:
        """Every method raises `InputValidationError` for a name that is empty or holds a slash or backslash."""
        shelf = await self.shelf()
        for name in BAD_NAMES:
            await expect_refused(shelf.calls(name), f"The file name {name!r}")

    @in_loop
    async def test_a_missing_owner_is_refused(self) -> None:
        """Every method raises `InputValidationError` without an app or user, and for a session's file without one."""
        shelf = await self.shelf()
        for owner in (shelf.other(app=""), shelf.other(user=""), shelf.other(session=""), shelf.other(session=None)):
            await expect_refused(owner.calls("a"), f"A file of {owner.where}")

    @in_loop
    async def test_a_part_with_nothing_to_store_is_refused(self) -> None:
        """`save_artifact` takes text, inline data or file data; of anything else, nothing is stored."""
        shelf = await self.shelf()
        for part in (types.Part(), types.Part(function_call=types.FunctionCall(name="f"))):
            await expect_refused({"save_artifact": shelf.save("a", part)}, f"The part {part!r}")
        assert await shelf.names() == [], "A part was refused and stored all the same."

    # -- at once -------------------------------------------------------------------------------

    @in_loop
    async def test_concurrent_saves_get_different_versions(self) -> None:
        """Of several saves of one file at once, each gets a number of its own, and none is lost."""
        shelf = await self.shelf()
        given = [number for (number,) in await asyncio.gather(*(shelf.save("a", str(n)) for n in range(20)))]
        assert sorted(given) == [*range(20)], f"20 concurrent saves got the versions {sorted(given)}."
        lost = [number for text, number in enumerate(given) if await shelf.text("a", number) != str(text)]
        assert not lost, f"Of 20 concurrent saves, these versions hold something else: {lost}."

    @in_loop
    async def test_what_is_stored_outlives_the_service(self) -> None:
        """A second service on the same data finds every version, and gives the numbers that follow."""
        shelf = await self.shelf()
        before = time.time()
        await shelf.save("A", "x", "y", "z", metadata={"a": 1})
        await shelf.delete("A", 2)
        again = await self.reopened(shelf)
        found = (await again.names(), await again.text("A", 0), await again.text("A"))
        assert found == (["A"], "x", "y"), f"After reopening, the file of x and y is {found}."
        info = await again.info("A")
        assert info is not None, "After reopening, nothing is known about a version."
        assert info.custom_metadata == {"a": 1}, f"After reopening, {{'a': 1}} is {info.custom_metadata!r}."
        assert info.create_time >= before - 1, "After reopening, a version is older than it was."
        given = await again.save("A", "z")
        assert given == [3], f"After reopening, version {given} was given, not [3]."

    @in_loop
    async def test_two_services_on_one_store_lose_no_version(self) -> None:
        """Two services that save one file in turns see each other's versions."""
        first = await self.shelf()
        second = await self.reopened(first)
        given = [(await (first, second)[number % 2].save("a", str(number)))[0] for number in range(6)]
        assert given == [*range(6)], f"Two services in turns were given the versions {given}."
        seen = [[await shelf.text("a", number) for number in range(6)] for shelf in (first, second)]
        assert seen == [[*"012345"]] * 2, f"Two services on one store see different versions: {seen}."
