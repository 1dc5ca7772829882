"""What tests compare an engine with: one forward of plain PyTorch per row."""

import torch


def log_probs(
    model: torch.nn.Module, prompt: torch.Tensor, response: torch.Tensor, temperature: float = 1.0
) -> torch.Tensor:
    """[T, V] at each token of the response."""
    ids = torch.cat([prompt, response]).unsqueeze(0)
    logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1]
    return (logits.float() / temperature).log_softmax(-1)


def of_tokens(log_probs: torch.Tensor, response: torch.Tensor) -> torch.Tensor:
    """[T] of [T, V]: those of the tokens of the response."""
    return log_probs.gather(-1, response.unsqueeze(-1)).squeeze(-1)


def entropy(log_probs: torch.Tensor) -> torch.Tensor:
    """[T] of [T, V]."""
    return -(log_probs.exp() * log_probs).sum(-1)


def outcomes(log_probs: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Probabilities of the tokens and of all others, in double precision."""
    p = log_probs.double().exp()
    return torch.cat([p.gather(-1, ids), p.scatter(-1, ids, 0.0).sum(-1, keepdim=True)], dim=-1)


def jsd(student: torch.Tensor, teacher: torch.Tensor, top_k: int, beta: float) -> torch.Tensor:
    """Written out, summed over the tokens of [T, V] log-probs."""
    ids = teacher.topk(top_k).indices
    p, q = outcomes(teacher, ids), outcomes(student, ids)
    m = beta * p + (1 - beta) * q
    return (beta * p * (p / m).log() + (1 - beta) * q * (q / m).log()).sum()
