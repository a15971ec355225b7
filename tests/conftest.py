"""Settings every test shares."""

from hypothesis import settings

# No deadline: a shared machine may stall for longer than any example takes.
settings.register_profile("streambpe", deadline=None)
settings.load_profile("streambpe")
