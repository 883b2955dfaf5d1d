"""Both artifact services keep the rules of artifact services."""

from __future__ import annotations

import tempfile

import pytest

from flowloom.artifacts import BaseArtifactService, InMemoryArtifactService
from flowloom.artifacts.files import FileArtifactService
from flowloom.testing.suites.artifact_service import ArtifactServiceSuite


class TestInMemory(ArtifactServiceSuite):
    def make_service(self) -> InMemoryArtifactService:
        return InMemoryArtifactService()


class TestFiles(ArtifactServiceSuite):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.directory = tempfile.mkdtemp(dir=tmp_path_factory.getbasetemp())

    def make_service(self) -> FileArtifactService:
        return FileArtifactService(self.directory)

    def reopen(self, service: BaseArtifactService) -> FileArtifactService:
        return FileArtifactService(self.directory)
