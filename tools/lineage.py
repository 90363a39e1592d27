"""The claims with their verdicts as the studio packages them: python -m tools.lineage"""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FROM = ROOT / "results" / "claims.json"
TO = ROOT / "src" / "recollect" / "studio" / "documents" / "claims.json"
KEYS = ("id", "statement", "verdict", "summary", "chapter")


def compact() -> str:
    """What a reader of the lineage needs of each claim."""
    rows = [{key: row.get(key) for key in KEYS} for row in json.loads(FROM.read_text(encoding="utf-8"))["rows"]]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f'{{"rows": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    TO.write_text(compact(), encoding="utf-8")
    print(TO.relative_to(ROOT))
