"""Memos: a stored resource whose rules are written in Python.

The host keeps the objects; `admit` says which may be written, and completes them. Classes and records are those of
wit/v0.1/plugin.wit, world `stored`, as componentize-py names them.
"""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.admission import Operation, Review, Verdict
from wit_world.exports.setup import (
    ApiResource,
    Column,
    Description,
    Shape_Stored,
    Subresource_Status,
)
from wit_world.imports.types import Cause, Failure

GROUP = "python.plugins.example.com"

SCHEMA = {
    "type": "object",
    "description": "A memo, counted in Python.",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["message"],
            "properties": {
                "message": {"type": "string", "description": "At least one word.", "maxLength": 4096},
                "level": {"type": "string", "description": "Left out, it is info.", "enum": ["info", "warning"]},
            },
        },
        "status": {
            "type": "object",
            "properties": {"words": {"type": "integer", "description": "Words of the message."}},
        },
    },
}


class Setup(exports.Setup):
    def configure(self, settings: str) -> None:
        if settings not in ("", "null", "{}"):
            raise Err("settings: there are none")

    def describe(self) -> Description:
        memos = ApiResource(
            group=GROUP,
            version="v1",
            kind="Memo",
            list_kind=None,
            plural="memos",
            singular=None,
            short_names=[],
            categories=[],
            namespaced=True,
            schema=json.dumps(SCHEMA),
            columns=[
                Column("Level", "string", "", "How urgent it is.", ".spec.level", 0),
                Column("Words", "integer", "", "Words of the message.", ".status.words", 0),
            ],
            selectable_fields=[".spec.level"],
            subresources=[Subresource_Status()],
            shape=Shape_Stored(),
            options=[],
        )
        return Description(resources=[memos], sources=[])


class Admission(exports.Admission):
    def admit(self, resource: str, review: Review) -> Verdict:
        if review.object is None or review.operation == Operation.DELETE or review.subresource is not None:
            return Verdict(object=None, warnings=[])
        memo = json.loads(review.object)
        words = memo["spec"]["message"].split()
        if not words:
            raise Err(refusal(review.key.name))
        memo["spec"].setdefault("level", "info")
        memo["status"] = {"words": len(words)}
        return Verdict(object=json.dumps(memo).encode(), warnings=[])


def refusal(name: str) -> Failure:
    detail = "Required value: a memo in Python has at least one word"
    return Failure(
        reason="Invalid",
        message=f'Memo.{GROUP} "{name}" is invalid: spec.message: {detail}',
        causes=[Cause(reason="FieldValueRequired", message=detail, field="spec.message")],
        retry_after_seconds=None,
    )
