// Only here so that the shared precompiled header belongs to a target.
