/**
 * Node's arguments for a thread. Nothing of the command line concerns it: loaders of a test runner would treble the time to start
 * it. Node 22 calls its SQLite experimental, which is no news to whoever runs a command.
 */
export const THREAD_ARGUMENTS = ['--disable-warning=ExperimentalWarning'];
