"""A chat model with random weights: a byte-level tokenizer and a small Llama, made
in place by transformers.

Answers are printable ASCII (a bias of the last layer), so that a later prompt that holds an answer
has the answer's own tokens: text → ids gives back the sampled ids.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

SPECIAL = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor"
    " %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CONTEXT = 32_768
UNLIKELY = -30.0
"""Bias of tokens that are not printable."""


def tokenizer() -> Any:
    """One token a byte, and the special ones."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bare = Tokenizer(
        models.BPE(vocab={each: number for number, each in enumerate(alphabet)}, merges=[])
    )
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bare.decoder = decoders.ByteLevel()
    bare.add_special_tokens(list(SPECIAL))
    return PreTrainedTokenizerFast(
        tokenizer_object=bare,
        eos_token="<|end|>",
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def llama(size: int, *, printable: Sequence[int], seed: int, width: int, depth: int) -> Any:
    """A causal model with random weights, and a bias towards the tokens `printable`."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=depth,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.2,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    head = nn.Linear(width, size, bias=True)
    nn.init.normal_(head.weight, std=0.2)
    with torch.no_grad():
        head.bias.fill_(UNLIKELY)
        head.bias[list(printable)] = 0.0
    model.lm_head = head
    return model.eval()


@dataclass(frozen=True, kw_only=True)
class Token:
    """One sampled token."""

    id: int
    logprob: float


class ChatModel:
    """Model and tokenizer, with sampling as a server does it: one token at a time,
    with a cache of keys and values.

    `processed`: logprobs after the temperature, as vLLM gives them with `--logprobs-mode
    processed_logprobs`; otherwise before it.
    """

    def __init__(
        self,
        *,
        device: str,
        dtype: str = "float32",
        processed: bool = True,
        seed: int = 0,
        width: int = 128,
        depth: int = 4,
    ) -> None:
        self.tokenizer = tokenizer()
        shown = [*range(32, 127), 10]
        printable = [
            self.tokenizer(chr(each), add_special_tokens=False)["input_ids"][0] for each in shown
        ]
        self.end = int(self.tokenizer.eos_token_id)
        size = len(self.tokenizer)
        made = llama(size, printable=[*printable, self.end], seed=seed, width=width, depth=depth)
        self.model = made.to(device=device, dtype=getattr(torch, dtype))
        self.device, self.processed = device, processed
        self._alone = threading.Lock()

    def prompt_ids(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Tokens of a dialogue, up to where the answer begins."""
        text = self.tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True
        )
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def text(self, ids: Sequence[int]) -> str:
        """Text of an answer, without the special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    @torch.no_grad()
    def sample(
        self, prompt: Sequence[int], *, most: int, temperature: float, seed: int | None
    ) -> Iterator[Token]:
        """The answer's tokens as they are sampled; the last one is <|end|> unless
        `most` are reached.
        """
        generator = torch.Generator(device=self.device)
        generator.seed() if seed is None else generator.manual_seed(seed)
        ids, cache = torch.tensor([list(prompt)], device=self.device), None
        for _ in range(most):
            with self._alone:
                out = self.model(input_ids=ids, past_key_values=cache, use_cache=True)
            cache, logits = out.past_key_values, out.logits[0, -1].float()
            chosen = self._chosen(logits, temperature, generator)
            logprob = float(self._log_probs(logits, temperature)[chosen])
            yield Token(id=chosen, logprob=logprob)
            if chosen == self.end:
                return
            ids = torch.tensor([[chosen]], device=self.device)

    @torch.no_grad()
    def recomputed(self, ids: Sequence[int], temperature: float) -> list[float]:
        """Logprobs of the tokens from the second on, in one pass over all of them."""
        rows = torch.tensor([list(ids)], device=self.device)
        found = self._log_probs(self.model(input_ids=rows).logits[0, :-1].float(), temperature)
        return [float(each) for each in found.gather(1, rows[0, 1:, None])[:, 0]]

    def _chosen(self, logits: torch.Tensor, temperature: float, generator: torch.Generator) -> int:
        if temperature == 0:
            return int(logits.argmax())
        chances = torch.softmax(logits / temperature, dim=-1)
        return int(torch.multinomial(chances, 1, generator=generator))

    def _log_probs(self, logits: torch.Tensor, temperature: float) -> torch.Tensor:
        scaled = logits / temperature if self.processed and temperature > 0 else logits
        return torch.log_softmax(scaled, dim=-1)
