"""BROWSE: `3.0` where an integer is expected: for JSON it is one, for Python a float."""

from __future__ import annotations

from typing import Any

from msgspec import inspect


def numbers(value: Any, kind: inspect.Type) -> Any:
    """The value with floats that have no fraction as integers, where the type has
    integers and no floats.

    Free-form values are left as they are; so are values that do not fit, for the decoder to refuse.
    """
    if isinstance(value, float) and value.is_integer():
        kinds = _choices(kind)
        exact = any(isinstance(each, inspect.IntType) for each in kinds)
        return (
            int(value)
            if exact and not any(isinstance(each, inspect.FloatType) for each in kinds)
            else value
        )
    for each in _choices(kind):
        if isinstance(value, dict) and isinstance(
            each, (inspect.StructType, inspect.DataclassType)
        ):
            types = {field.encode_name: field.type for field in each.fields}
            return {
                name: numbers(item, types[name]) if name in types else item
                for name, item in value.items()
            }
        if isinstance(value, list) and isinstance(each, (inspect.ListType, inspect.VarTupleType)):
            return [numbers(item, each.item_type) for item in value]
    return value


def _choices(kind: inspect.Type) -> list[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        return _choices(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [choice for each in kind.types for choice in _choices(each)]
    return [kind]
