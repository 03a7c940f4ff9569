"""A torch module is watched by hooks, and works as before."""

import copy
import io
import pickle
import re
import threading
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from likewise.watching.watch_records import Counts
from tests.watching.models import iris

pytestmark = pytest.mark.torch

RULE = lw.Rule("linf", epsilon=0.5)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "watch-a-model-in-code.md"


@pytest.fixture
def torch():
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    return torch


@pytest.fixture
def net(torch):
    """A small classifier, trained."""
    X, y = iris()
    inputs, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 3)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
    optimizer.zero_grad()
    return net.eval()


@pytest.fixture
def flowers(torch):
    X, _ = iris()
    X = np.random.default_rng(3).permutation(X)
    return torch.tensor(X, dtype=torch.float32)


def label(logits):
    return logits.argmax(dim=-1)


def test_watched_module_answers_as_before_and_finds_what_a_monitor_finds(torch, net, flowers):
    with torch.no_grad():
        before = net(flowers)
    told = lw.Monitor(RULE).observe_many(flowers.numpy(), label(before).numpy())
    found = [verdict for verdict in told if verdict.violation]
    assert len(found) > 5
    watched = lw.watch(net, RULE, output=label, keep=1000, on_failure="raise")
    with torch.no_grad():
        parts = [net(flowers[:1]), net(flowers[1:50]), watched(flowers[50:])]
    assert torch.allclose(torch.cat(parts), before)
    assert watched.counts == Counts(len(flowers), len(found), 0)
    for record, verdict in zip(watched.violations, found, strict=True):
        assert record.verdict.row == verdict.row
        assert record.verdict.witnesses == verdict.witnesses


def test_hook_gives_the_very_answer_of_the_module(torch):
    answers = []

    class Net(torch.nn.Module):
        def forward(self, x, *, scale=1.0):
            answers.append(x * scale)
            return answers[-1]

    net = Net().eval()
    lw.watch(net, lw.Rule("linf", 0.1, output="number"), output=lambda answer: answer[:, 0])
    assert net(torch.ones(3, 2), scale=2.0) is answers[0]
    assert net(x=torch.ones(1, 2)) is answers[1]


def test_probabilities_can_be_watched(torch, net, flowers):
    rule = lw.Rule("linf", 0.5, output="probabilities", delta=0.3)
    watched = lw.watch(net, rule, output=lambda logits: logits.softmax(-1), on_failure="raise")
    net(flowers)
    net(flowers[:1])
    assert watched.counts.decisions == len(flowers) + 1
    assert watched.counts.violations > 5


def test_gradients_are_those_of_the_module_alone(torch, net, flowers):
    other = copy.deepcopy(net)
    watched = lw.watch(net, RULE, output=label, on_failure="raise")
    inputs = flowers.clone().requires_grad_()
    outside = flowers.clone().requires_grad_()
    for module, given in ((net, inputs), (other, outside)):
        answer = module(given)
        assert answer.requires_grad
        answer.square().sum().backward()
    assert torch.equal(inputs.grad, outside.grad)
    for mine, theirs in zip(net.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine.grad, theirs.grad)
    with torch.no_grad():
        assert not net(flowers).requires_grad
    with torch.inference_mode():
        net(flowers)
    assert watched.counts.decisions == 3 * len(flowers)


def test_nothing_is_watched_while_the_module_is_trained(net, flowers):
    watched = lw.watch(net, RULE, output=label, on_failure="raise")
    net.train()(flowers)
    assert watched.counts.decisions == 0 and net.training
    net.eval()(flowers)
    assert watched.counts.decisions == len(flowers) and not net.training


def test_leaving_the_context_removes_the_hooks(net, flowers):
    with lw.watch(net, RULE, output=label) as watched:
        net(flowers)
        assert len(net._forward_hooks) == len(net._forward_pre_hooks) == 1
    assert not net._forward_hooks and not net._forward_pre_hooks
    net(flowers), watched(flowers)
    assert watched.counts.decisions == len(flowers)


def test_input_is_observed_as_it_was_given_though_the_first_layer_works_in_place(torch):
    net = torch.nn.Sequential(torch.nn.ReLU(inplace=True)).eval()
    watched = lw.watch(net, RULE, output=lambda x: x[:, 0].long(), on_failure="raise")
    for rows in (1, 3):
        given = -torch.ones(rows, 2)
        net(given)
        assert given.eq(0).all()  # it did change it
    assert (watched.monitor.past.inputs([0, 1, 2, 3]) == -1).all()


def test_module_that_raises_is_not_observed_and_goes_on(torch, net, flowers):
    watched = lw.watch(net, RULE, output=label, on_failure="raise")
    with pytest.raises(RuntimeError, match="shapes"):
        net(torch.ones(2, 9))
    net(flowers)
    assert watched.counts == Counts(len(flowers), watched.counts.violations, 0)
    assert np.array_equal(watched.monitor.past.inputs(0), flowers[:1].numpy())


def test_failure_does_not_break_the_module(torch, net, flowers):
    watched = lw.watch(net, RULE)  # logits are no labels
    with pytest.warns(
        lw.errors.FailureWarning, match="Sequential answered.*cannot be hashed"
    ) as warned:
        answer = net(flowers)
    assert answer.shape == (150, 3)
    assert warned[0].filename == __file__
    assert watched.counts.failures == 1
    with pytest.warns(lw.errors.FailureWarning, match="nan"):
        net(flowers * torch.nan)


def test_violation_is_raised_from_the_call_with_the_answer(net, flowers):
    lw.watch(net, RULE, output=label, on_violation="raise")
    with pytest.raises(lw.errors.Violation) as raised:
        net(flowers)
    assert raised.value.answer.shape == (150, 3)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float64"])
def test_other_precisions_are_observed(torch, net, flowers, name):
    dtype = getattr(torch, name)
    watched = lw.watch(net.to(dtype), RULE, output=label, on_failure="raise")
    net(flowers.to(dtype))
    kept = watched.monitor.past.inputs(range(len(flowers)))
    assert np.array_equal(kept.astype(np.float64), flowers.to(dtype).double().numpy())


def test_copies_and_pickles_of_a_watched_module_are_not_watched(torch, net, flowers):
    watched = lw.watch(net, RULE, output=label, on_failure="raise")
    kept = io.BytesIO()
    torch.save(net, kept)
    kept.seek(0)
    loaded = torch.load(kept, weights_only=False)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), loaded):
        with pytest.warns(
            lw.errors.HintWarning, match="Sequential is a copy.*is not watched"
        ) as warned:
            assert torch.equal(other(flowers), net(flowers))
        assert len(warned) == 1 and warned[0].filename == __file__
        other(flowers)  # said once
    assert watched.counts.decisions == 3 * len(flowers)
    assert list(net.state_dict()) == ["0.weight", "0.bias", "3.weight", "3.bias"]


def test_module_that_calls_itself_is_watched_at_each_call(torch):
    class Halves(torch.nn.Module):
        def forward(self, x):
            return x if x.max() < 1 else self(x / 2)

    net = Halves().eval()
    watched = lw.watch(net, lw.Rule("linf", 0.1, output="number"), output=lambda x: x[:, 0])
    net(torch.tensor([[4.0]]))
    kept = watched.monitor.past.inputs(range(watched.counts.decisions))
    assert kept.reshape(-1).tolist() == [0.5, 1.0, 2.0, 4.0]


def test_threads_lose_no_decision(torch, net, flowers):
    watched = lw.watch(net, RULE, output=label, on_failure="raise")

    def serve(shift):
        with torch.no_grad():
            for flower in flowers[:40]:
                net(flower[None] + shift)

    threads = [threading.Thread(target=serve, args=(100 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert watched.counts.decisions == 160
    expected = sorted(float(value) for k in range(4) for value in (flowers[:40] + 100 * k)[:, 0])
    assert np.sort(watched.monitor.past.inputs(range(160))[:, 0]).tolist() == expected


def test_compiled_module_is_watched(torch, net, flowers):
    compiled = torch.compile(net, backend="eager")
    with lw.watch(compiled, RULE, output=label, on_failure="raise") as watched, torch.no_grad():
        assert torch.equal(compiled(flowers), net(flowers))
        compiled(flowers[:1])
        assert watched.counts.decisions == len(flowers) + 1


def test_function_of_tensors_is_watched(torch, net, flowers):
    def decide(batch):
        with torch.no_grad():
            return label(net(batch))

    watched = lw.watch(decide, RULE, batched=True, on_failure="raise")
    assert torch.equal(watched(flowers), decide(flowers))
    single = lw.watch(lambda x: decide(x[None])[0], RULE, on_failure="raise")
    assert all(torch.equal(single(x), decide(x[None])[0]) for x in flowers)
    assert single.counts == watched.counts
    assert watched.counts.decisions == len(flowers) and watched.counts.violations > 5


def test_torch_block_of_the_page_does_what_it_says(torch, capsys):
    blocks = re.findall(
        r"<!-- not run: it needs torch[^\n]*-->\n```python\n(.*?)^```\n\n```text\n(.*?)^```",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    assert blocks
    for code, expected in blocks:
        exec(compile(code, str(PAGE.name), "exec"), {})
        assert capsys.readouterr().out == expected
