"""Python's stacks in the reports of a hang."""

HOLDS = """
    import ctypes, os, sys, threading
    import dabke, numpy
    dabke.init(settings={"STALL_CHECK_TIME_SECONDS": 1, "STALL_SHUTDOWN_TIME_SECONDS": 12})
    folder = sys.argv[1]
    if dabke.rank() == 1:
        def hold_the_lock():
            ctypes.PyDLL(None).pause()  # a C function that keeps the interpreter's lock for ever
        hold_the_lock()
    try:
        dabke.allreduce(numpy.ones(3), "gradient")
    except dabke.errors.StalledError as error:
        print("stalled", flush=True)
        os._exit(0)
"""


def test_a_stall_report_has_them_also_while_a_thread_holds_the_lock(run, tmp_path):
    done = run(HOLDS, arguments=[tmp_path])
    assert "stalled" in done.lines_of(0), done.output
    assert "in hold_the_lock" in done.output, done.output


def test_ten_threads_that_run_all_the_time_are_no_trouble(run):
    done = run(
        """
        import dabke, json, sys, threading
        dabke.init()
        end = threading.Event()
        def recurse(depth):
            return depth if depth == 0 else recurse(depth - 1) + [0][0]
        def work():
            while not end.is_set():
                recurse(50)
        threads = [threading.Thread(target=work) for _ in range(10)]
        for thread in threads:
            thread.start()
        for i in range(20):
            dabke.dump(sys.argv[0] + ".json")
        end.set()
        for thread in threads:
            thread.join()
        print("in recurse" in open(sys.argv[0] + ".json").read())
    """,
        ranks=0,
        limit=600,
    )
    assert done.code == 0, done.output
    assert done.output.strip() == "True"


def test_the_programs_own_faulthandler_is_left_alone(run):
    done = run(
        """
        import faulthandler, os, signal, sys, dabke
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR2, file=sys.stdout)
        dabke.init()
        dabke.dump(sys.argv[0] + ".json")
        handled = [number for number in range(signal.SIGRTMIN, signal.SIGRTMAX + 1)
                   if signal.getsignal(number) is not signal.SIG_DFL]
        print(handled, flush=True)
        os.kill(os.getpid(), signal.SIGUSR2)
    """,
        ranks=0,
    )
    assert done.code == 0, done.output
    assert 'train.py", line 10 in <module>' in done.output
