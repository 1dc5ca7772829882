"""What all tests share: property tests have no deadline, since a busy machine is no finding."""

from hypothesis import settings

settings.register_profile("rltf", deadline=None)
settings.load_profile("rltf")
