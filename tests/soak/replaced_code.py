"""Put a changed module into a running process by replacing the code of its functions."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from types import CodeType, FunctionType

_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_NEW_LOCALS = 0x02  # of code objects: functions have it, modules and the bodies of classes do not


def replace_code(path: str, original: str, mutated: str) -> bool:
    """Return False if functions cannot take their new code: the process must be given up."""
    old, new = (compile(text, path, "exec", dont_inherit=True) for text in (original, mutated))
    replacements = {(a.co_qualname, a.co_firstlineno): b for a, b in _pairs(old, new)}
    for function in [one for one in gc.get_objects() if isinstance(one, FunctionType)]:
        code = function.__code__
        if code.co_filename != path:
            continue
        replacement = replacements.get((code.co_qualname, code.co_firstlineno))
        if replacement is None or len(replacement.co_freevars) != len(code.co_freevars):
            return False
        function.__code__ = replacement
    return True


def differs_at_import(original: str, mutated: str, functions: tuple[str, ...]) -> bool:
    """True if importing the module may have another result: other constants, classes, defaults or called functions."""
    old, new = (compile(text, "module", "exec", dont_inherit=True) for text in (original, mutated))
    return _import_steps(old) != _import_steps(new) or bool(_used_at_import(original) & set(functions))


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    inner, other = _nested(old), _nested(new)
    is_same_shape = [one.co_name for one in inner] == [one.co_name for one in other]
    for number, code in enumerate(inner):
        if is_same_shape:
            partner: CodeType | None = other[number]
        else:
            place = [one.co_name for one in inner[:number]].count(code.co_name)
            partner = next(iter([one for one in other if one.co_name == code.co_name][place:]), None)
        if partner:
            yield code, partner
            yield from _pairs(code, partner)


def _nested(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _import_steps(code: CodeType) -> list[object]:
    """Return what runs at import: the module, the bodies of classes, and their comprehensions."""
    steps: list[object] = [code.co_code, code.co_names, [c for c in code.co_consts if not isinstance(c, CodeType)]]
    for one in _nested(code):
        if not one.co_flags & _NEW_LOCALS or one.co_name in _COMPREHENSIONS:
            steps.append(_import_steps(one))
    return steps


def _used_at_import(source: str) -> set[str]:
    statements = [
        one for one in ast.parse(source).body if not isinstance(one, ast.FunctionDef | ast.ClassDef | ast.Import)
    ]
    return {node.id for one in statements for node in ast.walk(one) if isinstance(node, ast.Name)}
