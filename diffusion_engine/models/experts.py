"""The gated feed-forward, and routed experts beside it, run one by one or all at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from diffusion_engine.models.config import Experts


def gated(x: Tensor, gate_up: nn.Module, down: nn.Module) -> Tensor:
    """(N, hidden_size) -> (N, hidden_size), through a SiLU gate (Shazeer 2020)."""
    gate, up = gate_up(x).chunk(2, dim=-1)
    out: Tensor = down(functional.silu(gate) * up)
    return out


class RoutedExperts(nn.Module):
    """The experts of one layer and the router that chooses among them; see `Experts` for the rule."""

    def __init__(self, hidden_size: int, config: Experts) -> None:
        super().__init__()
        self.config = config
        self.router = nn.Parameter(torch.empty(config.count, hidden_size))
        self.bias = nn.Parameter(torch.zeros(config.count))
        inner = config.intermediate_size
        self.gate_up = nn.ModuleList(nn.Linear(hidden_size, 2 * inner, bias=False) for _ in range(config.count))
        self.down = nn.ModuleList(nn.Linear(inner, hidden_size, bias=False) for _ in range(config.count))

    def forward(self, x: Tensor) -> Tensor:
        """(N, hidden_size) -> (N, hidden_size): the weighted sum of each row's experts.

        An expert runs once, on all rows that chose it. Rows are added in the order of the experts, so a row's sum does
        not depend on the rows beside it.
        """
        chosen, weights = self.route(x)
        out = torch.zeros_like(x)
        for expert in sorted(set(chosen.flatten().tolist())):
            rows, rank = torch.where(chosen == expert)
            part = gated(x[rows], self.gate_up[expert], self.down[expert])
            out.index_add_(0, rows, part * weights[rows, rank].unsqueeze(1).to(x.dtype))
        return out

    def route(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Choose each row's experts.

        Args:
            x: (N, hidden_size).

        Returns:
            Ids, (N, per_token) int64, and weights, (N, per_token) float32.
        """
        config = self.config
        # In float64: a last bit that depends on the other rows of the pass could choose another expert.
        scores = torch.sigmoid(x.double() @ self.router.double().T)
        preference = scores + self.bias.double()
        groups = preference.view(len(x), config.groups, -1)
        best_two = groups.topk(2, dim=-1).values.sum(-1)
        allowed = best_two.topk(config.groups_per_token, dim=-1).indices
        closed = torch.ones_like(best_two, dtype=torch.bool).scatter_(1, allowed, False)
        open_groups = groups.masked_fill(closed.unsqueeze(-1), -torch.inf)
        chosen = open_groups.flatten(1).topk(config.per_token, dim=-1).indices
        weights = scores.gather(1, chosen)
        if config.per_token > 1:
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
        return chosen, (weights * config.scaling).float()


class PackedExperts(nn.Module):
    """The same experts, all of them on all rows: no shape depends on who chose whom, and nothing waits for the choice.

    The results are those of `RoutedExperts` but for the order of the sum. It is work for few rows, where reading the
    weights is the limit, and most experts are chosen by some row anyway.
    """

    def __init__(self, routed: RoutedExperts) -> None:
        """Pack the weights; those of `routed` become views of them, so that memory holds them once."""
        super().__init__()
        self.routed = routed
        self.gate_up, self.down = _pack(routed.gate_up), _pack(routed.down)

    def forward(self, x: Tensor) -> Tensor:
        """(N, hidden_size) -> (N, hidden_size)."""
        chosen, weights = self.routed.route(x)
        share = weights.new_zeros(len(x), self.routed.config.count).scatter_(1, chosen, weights).to(x.dtype)
        rows = x.expand(len(self.gate_up), -1, -1)
        gate, up = torch.bmm(rows, self.gate_up.transpose(1, 2)).chunk(2, dim=-1)
        each = torch.bmm(functional.silu(gate) * up, self.down.transpose(1, 2))
        return torch.einsum("enh,ne->nh", each, share)


def _pack(linears: nn.ModuleList) -> Tensor:
    """(experts, out, in); the layers' weights are views of it."""
    packed = torch.stack([linear.get_parameter("weight").detach() for linear in linears])
    for index, linear in enumerate(linears):
        linear.weight = nn.Parameter(packed[index], requires_grad=False)
    return packed
