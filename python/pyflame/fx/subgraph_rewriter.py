"""Replaces parts of graphs that look like a pattern."""

from dataclasses import dataclass

from .graph import Graph
from .graph_module import GraphModule, _copy_attr
from .node import Node
from .tracing import symbolic_trace

__all__ = ["Match", "replace_pattern", "replace_pattern_with_filters"]


@dataclass
class Match:
    """A part of a graph that looks like a pattern: its last node, and the node (or value) that stands
    for each of the pattern's."""

    anchor: Node
    nodes_map: dict


@dataclass
class ReplacedPatterns(Match):
    """A match, and the nodes that came in its place."""

    replacements: list


def _graph(of):
    if isinstance(of, Graph):
        return of
    return of.graph if isinstance(of, GraphModule) else symbolic_trace(of).graph


def _same_target(a, b, pattern_module, module):
    if a.op != b.op:
        return False
    if a.op in ("call_module", "get_attr") and pattern_module is not None:
        theirs = _attribute(pattern_module, a.target)
        ours = _attribute(module, b.target)
        if a.op == "call_module":
            return type(theirs) is type(ours)
        return a.target == b.target or theirs is ours
    return a.target == b.target


def _attribute(module, path):
    for part in path.split("."):
        module = getattr(module, part, None)
    return module


class _Matcher:
    def __init__(self, pattern, pattern_module, module, ignore_literals=False):
        self.ignore_literals = ignore_literals
        self.pattern, self.pattern_module, self.module = pattern, pattern_module, module
        self.output = pattern.output_node()
        last = self.output.args[0]
        self.results = list(last) if isinstance(last, (tuple, list)) else [last]
        if not all(isinstance(r, Node) for r in self.results) or any(
            r.op == "placeholder" for r in self.results
        ):
            raise ValueError(
                "pf.fx.replace_pattern: the pattern returns one of its arguments or a constant; expected "
                "results of operations"
            )

    def value(self, p, v, of):
        """Whether a value of the graph fits one of the pattern."""
        if isinstance(p, Node):
            if p in of:
                return of[p] is v if isinstance(v, Node) else of[p] == v
            if p.op == "placeholder":
                of[p] = v
                return True
            return isinstance(v, Node) and self.node(p, v, of)
        if isinstance(v, Node):
            return False
        if isinstance(p, (tuple, list)) and isinstance(v, (tuple, list)):
            return len(p) == len(v) and all(self.value(a, b, of) for a, b in zip(p, v, strict=True))
        if isinstance(p, dict) and isinstance(v, dict):
            return p.keys() == v.keys() and all(self.value(p[k], v[k], of) for k in p)
        if isinstance(p, slice) and isinstance(v, slice):
            return self.value((p.start, p.stop, p.step), (v.start, v.stop, v.step), of)
        return self.ignore_literals or (type(p) is type(v) and p == v)

    def node(self, p, n, of):
        if not _same_target(p, n, self.pattern_module, self.module) or n in of.values():
            return False
        of[p] = n
        return self.value(p.args, n.args, of) and self.value(p.kwargs, n.kwargs, of)

    def closed(self, of):
        """Whether nobody outside uses what is within."""
        within = {n for p, n in of.items() if p.op != "placeholder"}
        results = {of[r] for r in self.results}
        return all(u in within for n in within - results for u in n.users)

    def at(self, n, candidates):
        """The match whose last result is `n`, or None."""
        of = {}
        if not self.node(self.results[-1], n, of):
            return None
        for r in reversed(self.results[:-1]):
            if r in of:
                continue
            for other in candidates:
                trial = dict(of)
                if other not in of.values() and self.node(r, other, trial):
                    of = trial
                    break
            else:
                return None
        if not self.closed(of):
            return None
        for p in self.pattern.nodes:  # arguments that the pattern does not use
            if p.op == "placeholder" and p not in of:
                of[p] = None
        return of


def _matches(gm, pattern, pattern_module, filters, ignore_literals):
    matcher = _Matcher(pattern, pattern_module, gm, ignore_literals)
    taken, found = set(), []
    nodes = list(gm.graph.nodes)
    for n in reversed(nodes):  # what lies behind first: matches do not overlap
        of = matcher.at(n, reversed(nodes))
        if of is None:
            continue
        within = {v for p, v in of.items() if p.op != "placeholder"}
        match = Match(n, of)
        if within & taken or not all(f(match, gm.graph, pattern) for f in filters):
            continue
        taken |= within
        found.append(match)
    return found[::-1], matcher


def replace_pattern(gm, pattern, replacement):
    """Replaces each part of a GraphModule's graph that looks like `pattern` by `replacement`, and
    compiles the graph.

    Both are functions (or GraphModules) with the same number of arguments. A part looks like the pattern
    when its operations, their constants and how they hang together are the pattern's, and nobody else
    uses a value within. Parts that overlap are replaced once, the last first. Returns a list of `Match`.
    """
    return [
        Match(m.anchor, m.nodes_map) for m in replace_pattern_with_filters(gm, pattern, replacement)
    ]


def replace_pattern_with_filters(gm, pattern, replacement=None, match_filters=None,
                                 ignore_literals=False, replacement_callback=None):  # fmt: skip
    """As replace_pattern, for matches alone for which each of the filters, called with (match, graph,
    pattern's graph), is true. `replacement_callback`, called with the same, gives the replacement of
    each match. With `ignore_literals` a number, text, bool or None of the pattern fits any other. Returns
    a list of ReplacedPatterns: matches with their new nodes."""
    if (replacement is None) == (replacement_callback is None):
        raise ValueError("pf.fx: expected a replacement or a replacement_callback, one of them")
    before = _graph(pattern)
    module = pattern if isinstance(pattern, GraphModule) else None
    matches, matcher = _matches(gm, before, module, match_filters or [], ignore_literals)
    after = None if replacement is None else _graph(replacement)
    arguments = [n for n in before.nodes if n.op == "placeholder"]
    replaced, became = [], {}
    for match in matches:
        new = after or _graph(replacement_callback(match, gm.graph, before))
        theirs = [n for n in new.nodes if n.op == "placeholder"]
        if len(theirs) != len(arguments):
            raise ValueError(
                f"pf.fx.replace_pattern: the pattern has {len(arguments)} arguments and the replacement "
                f"{len(theirs)}; expected the same"
            )
        # What an earlier replacement took away is what came in its place.
        of = {p: became.get(v, v) if isinstance(v, Node) else v for p, v in match.nodes_map.items()}
        values = {t: of[a] for t, a in zip(theirs, arguments, strict=True)}
        inside = [of[p] for p in before.nodes if p.op not in ("placeholder", "output") and p in of]
        results = [of[p] for p in matcher.results]
        place = _place(gm.graph, results, inside, values.values())
        if place is None:
            continue
        known = set(values)
        with gm.graph.inserting_before(place):
            result = gm.graph.graph_copy(new, values)
        made = list(result) if isinstance(result, (tuple, list)) else [result]
        if len(made) != len(results):
            raise ValueError(
                f"pf.fx.replace_pattern: the pattern returns {len(results)} values and the replacement "
                f"{len(made)}; expected the same"
            )
        for old, new_one in zip(results, made, strict=True):
            if not isinstance(new_one, Node):
                raise ValueError("pf.fx.replace_pattern: the replacement returns a constant")
            old.replace_all_uses_with(new_one)
            became[old] = new_one
        for n in reversed(inside):
            gm.graph.erase_node(n)
        _take_attributes(gm, replacement)
        copies = [v for k, v in values.items() if k not in known]
        replaced.append(ReplacedPatterns(match.anchor, match.nodes_map, copies))
    gm.recompile()
    return replaced


def _place(graph, results, inside, inputs):
    """The node before which the replacement goes: the first that uses it. None when something that it
    needs comes later."""
    order = {n: i for i, n in enumerate(graph.nodes)}
    users = [u for r in results for u in r.users if u not in inside]
    place = min(users, key=order.get) if users else max(inside, key=order.get).next
    late = [v for v in inputs if isinstance(v, Node) and order[v] >= order.get(place, len(order))]
    return None if late else place


def _take_attributes(gm, replacement):
    """Modules and tensors that the replacement has and the graph's module has not."""
    if not isinstance(replacement, GraphModule):
        return
    for n in replacement.graph.nodes:
        if n.op in ("call_module", "get_attr") and _attribute(gm, n.target) is None:
            _copy_attr(replacement, gm, n.target)
