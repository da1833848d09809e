"""Before init, after shutdown and in a forked child, a call raises an exception with the reason, and never
crashes."""

ASK_ALL = """
    import dabke, numpy
    def ask():
        pair = dabke.ProcessSet([0])
        calls = dict(
            rank=dabke.rank, size=dabke.size, local_rank=dabke.local_rank, cross_size=dabke.cross_size,
            is_homogeneous=dabke.is_homogeneous, allreduce=lambda: dabke.allreduce(numpy.ones(1)),
            grouped_allreduce=lambda: dabke.grouped_allreduce([numpy.ones(1)]),
            allgather=lambda: dabke.allgather(numpy.ones(1)), broadcast=lambda: dabke.broadcast(numpy.ones(1)),
            alltoall=lambda: dabke.alltoall(numpy.ones(1)), reducescatter=lambda: dabke.reducescatter(numpy.ones(1)),
            barrier=dabke.barrier, join=dabke.join, add_process_set=lambda: dabke.add_process_set(pair),
            sets=dabke.get_process_set_ids_and_ranks, statistics=dabke.statistics, dump=lambda: dabke.dump("x"),
            timeline=lambda: dabke.start_timeline("x"), abort=lambda: dabke.abort("x"))
        for name, call in calls.items():
            try:
                print(name, "gave", call())
            except dabke.DabkeError as error:
                print(type(error).__name__)
"""


def test_before_init_every_call_says_that_there_is_no_job(run):
    done = run(ASK_ALL + "    ask()\n", ranks=0)
    assert set(done.output.split()) == {"NotInitializedError"}, done.output
    assert done.code == 0


def test_after_shutdown_too(run):
    done = run(ASK_ALL + "    dabke.init()\n    dabke.shutdown()\n    dabke.shutdown()\n    ask()\n", ranks=0)
    assert set(done.output.split()) == {"NotInitializedError"}, done.output
    assert done.code == 0


def test_in_a_forked_child_every_call_says_that_it_is_one(run):
    done = run(
        ASK_ALL
        + """
    import os, sys
    dabke.init()
    pending = dabke.allreduce_async(numpy.ones(3))
    child = os.fork()
    if child == 0:
        ask()
        try:
            dabke.init()
        except dabke.errors.ForkedError:
            pass
        sys.stdout.flush()
        sys.exit(7)  # with its atexit hooks
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    dabke.synchronize(pending)
    print("parent", dabke.allreduce(numpy.ones(1), op=dabke.Sum)[0])
    """
    )
    for rank in (0, 1):
        assert set(done.lines_of(rank)) == {"ForkedError", "parent 2.0"}, done.output
    assert done.code == 0


def test_worker_processes_of_a_data_loader_are_no_trouble(run):
    done = run("""
        import multiprocessing, dabke, numpy
        def square(x):
            return x * x
        if __name__ == "__main__":
            dabke.init()
            with multiprocessing.get_context("fork").Pool(2) as pool:
                numbers = pool.map(square, range(10))
            print(dabke.allreduce(numpy.array(numbers), op=dabke.Max).tolist())
    """)
    assert done.code == 0, done.output
    assert done.lines_of(1) == [str([x * x for x in range(10)])]


def test_names_in_flight_are_a_value_error_where_asked_for(run):
    done = run("""
        import dabke, numpy
        dabke.init(settings={"DUPLICATE_NAMES": "error"})
        if dabke.rank() == 0:
            handle = dabke.allreduce_async(numpy.ones(1), "twice")
            try:
                dabke.allreduce_async(numpy.ones(1), "twice")
            except ValueError as error:
                print(type(error).__name__)
            dabke.allreduce(numpy.ones(1), "sync")
            handle.wait()
        else:
            dabke.allreduce(numpy.ones(1), "sync")
            dabke.allreduce(numpy.ones(1), "twice")
        dabke.barrier()
    """)
    assert done.lines_of(0) == ["DuplicateNameError"], done.output
    assert done.code == 0
