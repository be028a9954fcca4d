"""The picture of a schema shows all of it."""

from tocsin.schema.examples import load_example
from tocsin.service.web.schema_pages import BOX, picture_of


def test_the_picture_of_a_schema_has_every_name_once_within_its_frame() -> None:
    schema = load_example("auction")
    picture = picture_of(schema)
    names = [(box.kind, box.name) for box in picture.boxes]
    assert len(set(names)) == len(names) == len(schema.event_types) + len(schema.attributes) + len(schema.domains)
    assert len({(box.x, box.y) for box in picture.boxes}) == len(names)
    assert all(0 <= box.y <= picture.height - BOX for box in picture.boxes)
    assert len(picture.lines) == sum(len(one.attributes) for one in schema.event_types.values()) + len(
        schema.attributes
    )
