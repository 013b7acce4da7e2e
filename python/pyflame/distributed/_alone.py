"""A process group of one process: programs of several run as one, and each exchange is a copy."""

import datetime
import os

from .. import _C
from .._grad_mode import no_grad
from .._torch.absent import SEVERAL

HERE = f"{_C._shown_as()}.distributed"  # as the program names it


class Work:
    """What an exchange with async_op=True returns: it is done."""

    def __init__(self, result=None):
        self._result = result

    def wait(self, timeout=None):
        """True: it is done."""
        return True

    is_completed = is_success = wait

    def result(self):
        """The tensors."""
        return self._result


class ProcessGroup:
    """This process alone."""

    def __init__(self, backend):
        self._backend = backend

    def size(self):
        """1."""
        return 1

    def rank(self):
        """0."""
        return 0

    def name(self):
        """The backend that was asked for."""
        return self._backend


class GroupMember:
    """The group of all processes, once it is made."""

    WORLD = None
    NON_GROUP_MEMBER = -100


def _number(given, variable, init_method):
    if given is not None and given >= 0:
        return given
    if init_method not in (None, "env://") or variable in os.environ:
        return int(os.environ.get(variable, -1))
    raise _C.ValueError(
        f"{HERE}.init_process_group: the environment variable {variable} is not set; expected "
        "it, or the argument, to say how many processes there are and which this is; set RANK=0 and "
        "WORLD_SIZE=1 for one"
    )


def init_process_group(
    backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="",
    pg_options=None, device_id=None,
):  # fmt: skip
    """Makes the group of all processes, which are one: a world_size (argument or $WORLD_SIZE) of more
    raises NotSupportedError. Nothing is listened to or connected."""
    if GroupMember.WORLD is not None:
        raise _C.ValueError(
            f"{HERE}.init_process_group: trying to initialize the default process group "
            "twice; call destroy_process_group() before"
        )
    rank = _number(rank, "RANK", init_method)
    world_size = _number(world_size, "WORLD_SIZE", init_method)
    if world_size > 1:
        raise _C.NotSupportedError(
            f"{HERE}.init_process_group: got a world_size of {world_size}; {SEVERAL}"
        )
    if world_size != 1 or rank != 0:
        raise _C.ValueError(
            f"{HERE}.init_process_group: got rank {rank} of world_size {world_size}; "
            "expected rank 0 of world_size 1"
        )
    if timeout is not None and not isinstance(timeout, datetime.timedelta):
        raise TypeError(
            f"{HERE}.init_process_group: got a timeout of type {type(timeout).__name__}; "
            "expected a datetime.timedelta"
        )
    GroupMember.WORLD = ProcessGroup(str(backend).lower() if backend else "undefined")


def destroy_process_group(group=None):
    """Ends the group, or all."""
    if _group("destroy_process_group", group) is GroupMember.WORLD:
        GroupMember.WORLD = None


def is_initialized():
    """Whether init_process_group() was called."""
    return GroupMember.WORLD is not None


def _group(name, group=None):
    if GroupMember.WORLD is None:
        raise _C.ValueError(
            f"{HERE}.{name}: there is no process group; call init_process_group() first, or "
            "ask is_initialized()"
        )
    return group or GroupMember.WORLD


def _other(name, *ranks):
    for rank in ranks:
        if rank not in (None, 0):
            raise _C.ValueError(f"{HERE}.{name}: got rank {rank}; expected 0, the only process")


def get_rank(group=None):
    """0."""
    return _group("get_rank", group).rank()


def get_world_size(group=None):
    """1."""
    return _group("get_world_size", group).size()


def get_backend(group=None):
    """The name that init_process_group() was given."""
    return _group("get_backend", group).name()


def get_process_group_ranks(group=None):
    """[0]."""
    _group("get_process_group_ranks", group)
    return [0]


def get_global_rank(group, group_rank):
    """0."""
    _other("get_global_rank", group_rank)
    return 0


def get_group_rank(group, global_rank):
    """0."""
    _other("get_group_rank", global_rank)
    return 0


def new_group(ranks=None, timeout=None, backend=None, *args, **kwargs):
    """Another group of this process."""
    whole = _group("new_group")
    _other("new_group", *(ranks or ()))
    return ProcessGroup(backend or whole.name())


def barrier(group=None, async_op=False, device_ids=None):
    """Nobody is waited for."""
    _group("barrier", group)
    return Work() if async_op else None


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Nobody is waited for."""
    _group("monitored_barrier", group)


def _done(name, group, async_op, pairs, *ranks):
    """Copies each source to its destination."""
    _group(name, group)
    _other(name, *ranks)
    with no_grad():
        for to, source in pairs:
            if to is not source:
                to.copy_(source.reshape(to.shape))
    return Work([to for to, _ in pairs]) if async_op else None


def _alike(name, to, sources):
    if len(to) != len(sources):
        raise _C.ValueError(
            f"{HERE}.{name}: got lists of {len(to)} and {len(sources)}; expected one for "
            "each process, which is one"
        )
    return list(zip(to, sources))


def all_reduce(tensor, op=None, group=None, async_op=False):
    """The tensor as it is: the sum (mean, product, ...) over one process."""
    return _done("all_reduce", group, async_op, [(tensor, tensor)])


def all_reduce_coalesced(tensors, op=None, group=None, async_op=False):
    """The tensors as they are."""
    return _done("all_reduce_coalesced", group, async_op, [(t, t) for t in tensors])


def reduce(tensor, dst=None, op=None, group=None, async_op=False, group_dst=None):
    """The tensor as it is."""
    return _done("reduce", group, async_op, [(tensor, tensor)], dst, group_dst)


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """The tensor as it is."""
    return _done("broadcast", group, async_op, [(tensor, tensor)], src, group_src)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """tensor_list[0] becomes the tensor."""
    pairs = _alike("all_gather", tensor_list, [tensor])
    return _done("all_gather", group, async_op, pairs)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """The output becomes the input."""
    pairs = [(output_tensor, input_tensor)]
    return _done("all_gather_into_tensor", group, async_op, pairs)


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """gather_list[0] becomes the tensor."""
    pairs = _alike("gather", gather_list or [], [tensor])
    return _done("gather", group, async_op, pairs, dst, group_dst)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """The tensor becomes scatter_list[0]."""
    pairs = _alike("scatter", [tensor], scatter_list or [])
    return _done("scatter", group, async_op, pairs, src, group_src)


def reduce_scatter(output, input_list, op=None, group=None, async_op=False):
    """The output becomes input_list[0]."""
    pairs = _alike("reduce_scatter", [output], input_list)
    return _done("reduce_scatter", group, async_op, pairs)


def reduce_scatter_tensor(output, input, op=None, group=None, async_op=False):
    """The output becomes the input."""
    return _done("reduce_scatter_tensor", group, async_op, [(output, input)])


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Each output becomes its input."""
    pairs = _alike("all_to_all", output_tensor_list, input_tensor_list)
    return _done("all_to_all", group, async_op, pairs)


def all_to_all_single(
    output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False
):
    """The output becomes the input."""
    return _done("all_to_all_single", group, async_op, [(output, input)])


def _objects(name, group, to, source, *ranks):
    _group(name, group)
    _other(name, *ranks)
    if to is not None:
        _alike(name, to, source)
        to[:] = source


def all_gather_object(object_list, obj, group=None):
    """object_list[0] becomes the object."""
    _objects("all_gather_object", group, object_list, [obj])


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """object_gather_list[0] becomes the object."""
    _objects("gather_object", group, object_gather_list, [obj], dst, group_dst)


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """The list as it is."""
    _objects("broadcast_object_list", group, None, None, src, group_src)


def scatter_object_list(out_list, in_list=None, src=None, group=None, group_src=None):
    """out_list[0] becomes in_list[0]."""
    _objects("scatter_object_list", group, out_list, in_list or [], src, group_src)
