"""USD per million tokens, beside a reference accelerator, and the price ratio at which both cost the same."""

from __future__ import annotations

from day0.runs.values import Frozen
from day0.tools.forecast.hardware import Hardware, document
from pydantic import Field


class Price(Frozen):
    """One kind of price for two accelerators at their throughputs. USD per accelerator-hour and per 10^6 tokens."""

    kind: str = Field(description="retail, hyperscaler or neocloud")
    usd_per_hour: float
    reference_usd_per_hour: float
    usd_per_mtok: float
    reference_usd_per_mtok: float
    price_ratio: float = Field(description="reference / own price per hour")


class Cost(Frozen):
    """What output tokens cost here and on the reference."""

    reference: str
    prices: tuple[Price, ...]
    break_even: float = Field(description="own / reference throughput per accelerator: equal cost at this price ratio")
    source: str


def usd_per_mtok(usd_per_hour: float, output_tok_s: float) -> float:
    """USD per million output tokens of one accelerator that makes `output_tok_s`."""
    return usd_per_hour / (3600.0 * output_tok_s) * 1e6


def cost(own: Hardware, own_tok_s: float, reference: Hardware, reference_tok_s: float) -> Cost:
    """Cost by every kind of price that both accelerators have; throughputs are output tokens/s per accelerator."""
    prices = tuple(
        Price(
            kind=kind, usd_per_hour=usd, reference_usd_per_hour=reference.usd_per_hour[kind],
            usd_per_mtok=usd_per_mtok(usd, own_tok_s),
            reference_usd_per_mtok=usd_per_mtok(reference.usd_per_hour[kind], reference_tok_s),
            price_ratio=reference.usd_per_hour[kind] / usd,
        )
        for kind, usd in sorted(own.usd_per_hour.items())
        if kind in reference.usd_per_hour
    )  # fmt: skip
    return Cost(reference=reference.name, prices=prices, break_even=own_tok_s / reference_tok_s,
                source=str(document("hardware.yaml")["price_source"]))  # fmt: skip
