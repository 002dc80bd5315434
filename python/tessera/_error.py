class Error(Exception):
    """What went wrong, in a sentence.

    `code` is the exit code of the program, or None if this package found the problem: 1 failed
    while running, 2 wrong input, 130 interrupted. `result` is the Run or Comparison that the
    program wrote although it failed (a client whose numbers are not finite, a method that
    diverged), else None.
    """

    __module__ = "tessera"  # where people find it, in tracebacks too

    def __init__(self, message, code=None, result=None):
        super().__init__(message)
        self.code = code
        self.result = result
