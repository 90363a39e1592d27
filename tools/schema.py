"""Write recipes/schema.json, the JSON Schema of recipes: python -m tools.schema"""

import json
from pathlib import Path

from recollect.training.schema import recipe_schema

PATH = Path(__file__).resolve().parents[1] / "recipes" / "schema.json"


def document() -> str:
    return json.dumps(recipe_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(document(), encoding="utf-8")
