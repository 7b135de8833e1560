// Prints the outcome of each test file, and the summary of the whole run. Decides whether the run
// passed: flaky files (failed once, then passed alone) are named, and only a few are tolerated.
import { styleText } from 'node:util';
import { type FileOutcome, hasFailed } from './run-file.ts';

/** With more flaky files than this the run fails. */
export const FLAKY_MAX = 3;

export function printOutcome(outcome: FileOutcome): void {
  const word = hasFailed(outcome) ? styleText('red', 'FAIL') : styleText('green', 'ok  ');
  printFile(word, outcome, { withOutput: hasFailed(outcome) });
}

/** A flaky file passed, but its output is still worth comparing with that of the failure. */
export function printRerun(outcome: FileOutcome): void {
  if (hasFailed(outcome)) printOutcome(outcome);
  else printFile(styleText('yellow', 'FLAKY'), outcome, { withOutput: true });
}

function printFile(
  word: string,
  { file, lines, output, tookMs }: FileOutcome,
  { withOutput }: { withOutput: boolean },
): void {
  const results = lines.filter((line) => line.kind !== 'note');
  console.log(`${word} ${file}  (${results.length} tests, ${(tookMs / 1000).toFixed(1)} s)`);
  for (const line of lines) if (line.kind === 'note') console.log(`     ${line.text}`);
  for (const { kind, name, why = '' } of results)
    if (kind === 'failed')
      console.log(`     ${styleText('red', name)}\n${why.replace(/^/gm, '       ')}`);
  if (withOutput && output.trim() !== '')
    console.log(`     what it printed:\n${output.trimEnd().replace(/^/gm, '     | ')}`);
}

/** The outcome of a file's only or first run, and that of its second run if there was one. */
export type FileResult = { first: FileOutcome; second?: FileOutcome | undefined };

/**
 * Prints the skipped, flaky and failed tests and the totals. Returns whether the run passed. A
 * flaky file counts with its second run, or with its first one where too many files are flaky.
 */
export function printSummary(results: readonly FileResult[]): boolean {
  const flaky = results.filter(({ second }) => second !== undefined && !hasFailed(second));
  const tooManyFlaky = flaky.length > FLAKY_MAX;
  const totals = { passed: 0, failed: 0, skipped: 0 };
  const skipped: string[] = [];
  const failed: string[] = [];
  for (const result of results) {
    const { first, second = first } = result;
    const { file, lines } = tooManyFlaky && flaky.includes(result) ? first : second;
    for (const line of lines) {
      if (line.kind === 'note') continue;
      totals[line.kind] += 1;
      if (line.kind === 'skipped') skipped.push(`SKIPPED ${file}: ${line.name}: ${line.why ?? ''}`);
      if (line.kind === 'failed') failed.push(`FAILED  ${file}: ${line.name}`);
    }
  }
  const unstable = flaky.map(({ first: { file, lines } }) => {
    const names = lines.flatMap((line) => (line.kind === 'failed' ? [line.name] : []));
    return `FLAKY   ${file}: failed, then passed alone (both outputs are above): ${names.join(', ')}`;
  });
  for (const line of [...skipped, ...unstable, ...failed]) console.log(line);
  if (tooManyFlaky)
    console.log(`test: ${flaky.length} files are flaky and at most ${FLAKY_MAX} may be: failed`);
  const wasEmpty = totals.passed + totals.failed === 0;
  if (wasEmpty) console.log('test: nothing was run, so nothing is known');
  console.log(`${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`);
  return totals.failed === 0 && !wasEmpty;
}
