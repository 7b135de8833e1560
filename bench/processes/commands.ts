// A bench process reads commands from standard input and writes results to standard output, one
// JSON line each, until its input ends.
import { createInterface } from 'node:readline';

export function serveCommands<Order>(
  ready: unknown,
  answer: (order: Order) => Promise<unknown>,
): void {
  const writeLine = (value: unknown): void =>
    void process.stdout.write(`${JSON.stringify(value)}\n`);
  const lines = createInterface({ input: process.stdin });
  lines.on('line', (line) => {
    answer(JSON.parse(line) as Order).then(
      (value) => writeLine({ value }),
      (error: unknown) =>
        writeLine({ error: error instanceof Error ? error.stack : String(error) }),
    );
  });
  lines.on('close', () => process.exit(0));
  writeLine({ value: ready });
}
