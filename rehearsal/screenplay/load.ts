// Loads the screenplays of one or more directories as scenarios, in the order in which they are
// tried. Returns problems with file and line; the caller decides what to do about them.
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readMatch } from './read-match.ts';
import { readReply } from './read-reply.ts';
import type { MatchConditions, Scenario, ScreenplayProblem } from './types.ts';
import { type YamlEntry, YamlReader } from './yaml-reader.ts';

export type ScreenplaySet = {
  readonly scenarios: readonly Scenario[];
  readonly problems: readonly ScreenplayProblem[];
};

const FILE_BYTES_MAX = 1_000_000;
const SCENARIO_KEYS = ['play', 'about', 'fallback', 'match', 'answers'] as const;

function readScenario(reader: YamlReader, entry: YamlEntry): Scenario | undefined {
  const fields = reader.readFields(entry, 'a play', SCENARIO_KEYS);
  const [nameEntry, answersEntry, matchEntry] = [
    fields.get('play'),
    fields.get('answers'),
    fields.get('match'),
  ];
  if (!nameEntry) reader.report(entry.offset, 'a play needs "play", its name');
  if (!answersEntry) reader.report(entry.offset, 'a play needs "answers"');
  const match: MatchConditions = matchEntry ? readMatch(reader, matchEntry, 'match') : {};
  const aboutEntry = fields.get('about');
  if (aboutEntry) reader.readString(aboutEntry, 'about');
  const fallbackEntry = fields.get('fallback');
  const isFallback = fallbackEntry ? reader.readBoolean(fallbackEntry, 'fallback') : false;
  if (!isFallback && Object.keys(match).length === 0) {
    reader.report(
      entry.offset,
      'a play without "match" matches every request; add "fallback: true"',
    );
  }
  const name = nameEntry && reader.readString(nameEntry, 'play');
  const replies = answersEntry
    ? reader.readList(answersEntry, 'answers').map((item) => readReply(reader, item, match))
    : [];
  if (replies.length > 0 && replies.every((reply) => reply.when)) {
    reader.report(answersEntry!.offset, 'answers needs at least one entry without "when"');
  }
  if (name === undefined) return undefined;
  return { name, file: reader.file, match, isFallback, replies };
}

export function readScreenplay(file: string, text: string): ScreenplaySet {
  const reader = new YamlReader(file, text);
  if (reader.problems.length > 0) return { scenarios: [], problems: reader.problems };
  const playsEntry = reader.readFields(reader.root, 'a screenplay', ['plays']).get('plays');
  if (!playsEntry && reader.problems.length === 0) reader.report(0, 'a screenplay needs "plays"');
  const scenarios: Scenario[] = [];
  for (const entry of playsEntry ? reader.readList(playsEntry, 'plays') : []) {
    const scenario = readScenario(reader, entry);
    if (scenario && scenarios.some((other) => other.name === scenario.name)) {
      reader.report(entry.offset, `duplicate play "${scenario.name}"`);
    }
    if (scenario) scenarios.push(scenario);
  }
  return { scenarios, problems: reader.problems };
}

function listFiles(directory: string): string[] {
  return readdirSync(directory)
    .filter((name) => /\.ya?ml$/.test(name))
    .sort()
    .map((name) => join(directory, name));
}

function readScreenplayFile(file: string): ScreenplaySet {
  const bytes = readFileSync(file);
  if (bytes.length > FILE_BYTES_MAX) {
    const message = `the file has ${bytes.length} bytes; the maximum is ${FILE_BYTES_MAX}`;
    return { scenarios: [], problems: [{ file, line: 1, message }] };
  }
  return readScreenplay(file, bytes.toString('utf8'));
}

/**
 * Earlier directories take precedence: their scenarios are tried first, and replace later ones with
 * the same name.
 */
export function loadScreenplays(directories: readonly string[]): ScreenplaySet {
  const scenarios = new Map<string, Scenario>();
  const problems: ScreenplayProblem[] = [];
  for (const directory of directories) {
    const earlierNames = new Set(scenarios.keys());
    let files: string[] = [];
    try {
      files = listFiles(directory);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      problems.push({ file: directory, line: 0, message: `cannot be read: ${reason}` });
    }
    for (const file of files) {
      const screenplay = readScreenplayFile(file);
      problems.push(...screenplay.problems);
      for (const scenario of screenplay.scenarios) {
        const other = scenarios.get(scenario.name);
        if (other === undefined) scenarios.set(scenario.name, scenario);
        else if (!earlierNames.has(scenario.name)) {
          const message = `duplicate play "${scenario.name}", already in ${basename(other.file)}`;
          problems.push({ file, line: 1, message });
        }
      }
    }
  }
  const ordered = [...scenarios.values()];
  return {
    scenarios: [
      ...ordered.filter((scenario) => !scenario.isFallback),
      ...ordered.filter((scenario) => scenario.isFallback),
    ],
    problems,
  };
}

export function formatProblem(problem: ScreenplayProblem): string {
  return `${problem.file}:${problem.line}: ${problem.message}`;
}
