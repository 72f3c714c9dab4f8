// tap sets them by its own output, and would decide about the colours of what it tests.
for (const name of ['FORCE_COLOR', 'NO_COLOR']) delete process.env[name];
