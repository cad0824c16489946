"""Where agents put commands and paths in a tool's arguments: for rules and for the audit alike."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

# A command, as a list of words or as text.
COMMAND_KEYS: Final = ("command", "cmd", "argv")
# What follows the command's first word, where that stands alone.
REST_KEYS: Final = ("args",)
ARGV_KEYS: Final = (*COMMAND_KEYS, *REST_KEYS)
# Where it runs.
CWD_KEYS: Final = ("cwd", "workdir", "workingDirectory", "working_directory")
PATH_KEYS: Final = (
    "path",
    "paths",
    "file",
    "files",
    "file_path",
    "file_paths",
    "filePath",
    "filePaths",
    "filename",
    "fileName",
    "absolute_path",
    "absolutePath",
    "abs_path",
    "notebook_path",
    "notebookPath",
    "dir",
    "directory",
    "dir_path",
    "dirPath",
    "folder",
    "old_path",
    "oldPath",
    "new_path",
    "newPath",
    "move_path",
    "movePath",
    *CWD_KEYS,
)
# Text that is looked for, not a path; unless it begins like one.
PATTERN_KEYS: Final = ("pattern", "glob", "regex", "query", "include", "exclude")
# An address.
URL_KEYS: Final = ("url", "urls", "uri", "href")
# What is written: a call that has one of them does not only read.
WRITING_KEYS: Final = (
    "content",
    "contents",
    "file_text",
    "new_string",
    "new_str",
    "newString",
    "new_text",
    "newText",
    "old_string",
    "oldString",
    "insert_text",
    "patch",
)


def strings(value: Any) -> Iterator[str]:
    """Yield a string, or those in a list."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        yield from (item for item in value if isinstance(item, str))


def under(raw_input: Any, keys: tuple[str, ...]) -> Iterator[str]:
    """Yield the strings that stand under some keys at the top of a tool's arguments."""
    if isinstance(raw_input, Mapping):
        for key in keys:
            yield from strings(raw_input.get(key))
