// Handles Ctrl-C while a task or log is followed: following ends, the work continues.

/** Aborts at the first SIGINT or SIGTERM; a second one ends the program at once. */
export function onInterrupt(): { signal: AbortSignal; done(): void } {
  const controller = new AbortController();
  const stop = (): void => {
    controller.abort();
    done();
  };
  const done = (): void => {
    process.off('SIGINT', stop);
    process.off('SIGTERM', stop);
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  return { signal: controller.signal, done };
}

/** The shells' exit status after SIGINT. */
export const EXIT_INTERRUPTED = 130;
