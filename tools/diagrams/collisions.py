"""What lies on something else in a diagram: words on words, lines through words or boxes, borders through words."""

from itertools import pairwise

from .kit import Diagram, Point, Rect


def collisions(diagram: Diagram) -> list[str]:
    """What lies on something else: words on words, lines through words or boxes, borders through words."""
    found = []
    legs = [leg for route in diagram.routes for leg in pairwise(route)]
    texts = [(_smaller(room, (room.right - room.left) * 0.06, 1), label) for room, label in diagram.texts]
    for i, (rect, label) in enumerate(texts):
        found += [f"{label!r} lies on {other!r}" for room, other in texts[:i] if _overlap(rect, room)]
        for shape in (*diagram.shapes, *diagram.frames):
            if _overlap(rect, shape.rect) and not _inside(rect, shape.rect):
                found.append(f"a border at {shape.x:.0f}, {shape.y:.0f} runs through {label!r}")
        if any(_crosses(leg, rect) for leg in legs):
            found.append(f"a line runs through {label!r}")
    for shape in diagram.shapes:
        if any(_crosses(leg, _smaller(shape.rect, 2, 2)) for leg in legs):
            found.append(f"a line runs through the shape at {shape.x:.0f}, {shape.y:.0f}")
    return found


def _smaller(rect: Rect, across: float, down: float) -> Rect:
    return Rect(rect.left + across, rect.top + down, rect.right - across, rect.bottom - down)


def _overlap(a: Rect, b: Rect) -> bool:
    return a.left < b.right and b.left < a.right and a.top < b.bottom and b.top < a.bottom


def _inside(a: Rect, b: Rect) -> bool:
    return a.left >= b.left and a.right <= b.right and a.top >= b.top and a.bottom <= b.bottom


def _crosses(leg: tuple[Point, Point], rect: Rect) -> bool:
    """Whether a piece of a line enters a rectangle (Liang and Barsky)."""
    (x, y), (x1, y1) = leg
    enters, leaves = 0.0, 1.0
    for way, room in (
        (x - x1, x - rect.left),
        (x1 - x, rect.right - x),
        (y - y1, y - rect.top),
        (y1 - y, rect.bottom - y),
    ):
        if way == 0:
            if room <= 0:
                return False
        elif way < 0:
            enters = max(enters, room / way)
        else:
            leaves = min(leaves, room / way)
    return enters < leaves
