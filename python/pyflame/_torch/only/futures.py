"""torch.futures: values that are there later, by Python's concurrent.futures."""

import concurrent.futures as _futures


class Future(_futures.Future):
    """A value that somebody sets later."""

    def __init__(self, *, devices=None):
        super().__init__()

    def wait(self):
        """The value, when it is there; raises what stands in its place."""
        return self.result()

    def value(self):
        """The value; RuntimeError before it is there."""
        if not self.done():
            raise RuntimeError(
                "torch.futures.Future.value: the value is not there yet; call wait()"
            )
        return self.result()

    def then(self, callback):
        """A Future of callback(this one), which is called when the value is there."""
        made = Future()

        def go_on(this):
            try:
                made.set_result(callback(this))
            except BaseException as e:
                made.set_exception(e)

        self.add_done_callback(go_on)
        return made


def collect_all(futures):
    """A Future of the list of futures, there when all of them have a value."""
    futures, made, left = list(futures), Future(), []
    left.extend(futures)

    def one_less(future):
        left.remove(future)
        if not left and not made.done():
            made.set_result(futures)

    if not futures:
        made.set_result(futures)
    for future in futures:
        future.add_done_callback(one_less)
    return made


def wait_all(futures):
    """The values of all of them, as a list."""
    return [f.wait() for f in collect_all(futures).wait()]
