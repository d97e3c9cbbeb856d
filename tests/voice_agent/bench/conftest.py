from hypothesis import settings

# A busy machine is no failure: tests assert no times.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
