from hypothesis import settings

# The same examples in every run, and no clock: the first call of a kernel compiles it.
settings.register_profile("hebbnmf", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("hebbnmf")
