"""The JSON Schema of query files, by which editors complete keys and mark mistakes."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from osgt.tables.query_file import query_file_model


class _WithoutNull(GenerateJsonSchema):
    """TOML has no null: a key is there with a value, or is left out."""

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        found = super().default_schema(schema)
        # A whole table as a default says nothing that its keys do not.
        return {
            key: value
            for key, value in found.items()
            if key != "default" or isinstance(value, bool | int | float | str)
        }

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def query_file_schema() -> dict[str, Any]:
    """The schema, for all aggregates that there are."""
    schema = query_file_model().model_json_schema(schema_generator=_WithoutNull)
    return {"$schema": "http://json-schema.org/draft-07/schema#", **schema, "title": "A query file of osgt"}
