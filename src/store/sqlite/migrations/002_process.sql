-- The number that a process gave itself, the same on all databases; null for those of the version before, which may still run.
ALTER TABLE owner ADD COLUMN process INTEGER;
