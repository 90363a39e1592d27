"""No file outside a task's folder asks for the name of a task or of a model."""

import ast
from pathlib import Path

import recollect
from recollect import tasks

SOURCE = Path(recollect.__file__).parent


def names_compared(path):
    """Comparisons of something called a name, task or model with literal strings: line and literals."""
    for node in ast.walk(ast.parse(path.read_text())):
        subjects, literals = [], []
        if isinstance(node, ast.Compare):
            subjects = [node.left, *node.comparators]
            literals = [each for side in subjects for each in ast.walk(side) if side_of_literals(side)]
        elif isinstance(node, ast.Match):
            subjects = [node.subject]
            literals = [each for case in node.cases for each in ast.walk(case.pattern)]
        if any(says_name(subject) for subject in subjects):
            yield node.lineno, {each.value for each in literals if isinstance(each, ast.Constant)}


def side_of_literals(node):
    return isinstance(node, ast.Constant | ast.Tuple | ast.List | ast.Set)


def says_name(node):
    """Whether an expression ends in name, task or model: `run.model`, `row["task"]`, `heat.get("name")`, `model`."""
    if isinstance(node, ast.Call) and node.args:
        return says_name(node.args[0]) and (isinstance(node.func, ast.Name) or node.func.attr == "get")
    ends = {ast.Name: "id", ast.Attribute: "attr", ast.Constant: "value"}
    last = node.slice if isinstance(node, ast.Subscript) else node
    return getattr(last, ends.get(type(last), ""), None) in ("name", "task", "model")


def test_no_file_compares_the_name_of_a_task_or_a_model():
    """Only the folder of a task may: everything else asks the task, the model's kind, or the rows themselves."""
    named = {*tasks.names(), *(model for task in tasks.every() for model in (*task.models, *task.combined))}
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] in ("tasks", "claims"):
            continue
        for line, literals in names_compared(path):
            assert not literals & named, f"{path.relative_to(SOURCE)}:{line} compares {literals & named}"
