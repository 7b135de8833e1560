// Reports the tests of one file as JSON lines for tools/test.ts; loaded by Node's test runner in
// that file's process.
import type { TestEvent } from 'node:test/reporters';
import { inspect } from 'node:util';

export type TestLine =
  | { kind: 'passed' | 'failed' | 'skipped'; name: string; why?: string }
  | { kind: 'note'; text: string };

/** The runner's own totals, which it also sends as notes. */
const ownTotals = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) /;

const reasonOf = (value: string | boolean | undefined): string =>
  typeof value === 'string' && value !== '' ? value : 'no reason given';

function whyFailed(error: Error): string {
  // The runner wraps what the test threw; the wrapper says nothing more.
  return inspect(error.cause ?? error, { depth: 4, breakLength: 100 });
}

function toLine(event: TestEvent, path: readonly string[]): TestLine | undefined {
  if (event.type === 'test:diagnostic') {
    return ownTotals.test(event.data.message)
      ? undefined
      : { kind: 'note', text: event.data.message };
  }
  if (event.type !== 'test:pass' && event.type !== 'test:fail') return undefined;
  const { data } = event;
  const name = [...path.slice(0, data.nesting), data.name].join(' › ');
  const unfinished = data.skip ?? data.todo;
  if (unfinished !== undefined) return { kind: 'skipped', name, why: reasonOf(unfinished) };
  if (event.type === 'test:fail') {
    const { error } = event.data.details;
    // The parent of a failed test fails too; only the test itself is counted.
    if ('failureType' in error && error.failureType === 'subtestsFailed') return undefined;
    return { kind: 'failed', name, why: whyFailed(error) };
  }
  return data.details.type === 'suite' ? undefined : { kind: 'passed', name };
}

export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  // Starts arrive in the order of the tree, each before its children: they name the parents.
  const path: string[] = [];
  for await (const event of events) {
    if (event.type === 'test:start') {
      path.length = event.data.nesting;
      path[event.data.nesting] = event.data.name;
      continue;
    }
    const line = toLine(event, path);
    if (line !== undefined) yield `${JSON.stringify(line)}\n`;
  }
}
