"""Metrics of heats that several tasks share."""

from ..core.metric import Metric

NATS = Metric(name="nats_per_token", label="nats per token")
BLEU = Metric(name="bleu", label="BLEU", better="higher")
RIGHT = Metric(name="accuracy", place=("accuracy",), label="share right", better="higher", unit="share")
