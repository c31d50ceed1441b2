from pathlib import Path

import pytest

from edge.errors import SetupError
from edge.operations.files import hold, is_held


def test_a_data_directory_has_one_owner(tmp_path: Path) -> None:
    with hold(tmp_path):
        assert is_held(tmp_path)
        with pytest.raises(SetupError, match="in use"), hold(tmp_path):
            pass
    assert not is_held(tmp_path)
