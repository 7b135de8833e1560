// Reads the screenplays of one or more directories into plays, in the order they are tried. What is
// wrong comes back as problems with file and line; deciding what to do about them is the caller's.
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readAnswer } from './read-answer.ts';
import { readMatch } from './read-match.ts';
import type { Match, Play, Problem } from './types.ts';
import { type Spot, YamlReader } from './yaml-reader.ts';

export type Repertoire = { readonly plays: readonly Play[]; readonly problems: readonly Problem[] };

const fileBytesMax = 1_000_000;
const PLAY_KEYS = ['play', 'about', 'fallback', 'match', 'answers'] as const;

function readPlay(reader: YamlReader, spot: Spot): Play | undefined {
  const fields = reader.readFields(spot, 'a play', PLAY_KEYS);
  const [nameSpot, answersSpot, matchSpot] = [
    fields.get('play'),
    fields.get('answers'),
    fields.get('match'),
  ];
  if (!nameSpot) reader.report(spot.offset, 'a play needs "play", its name');
  if (!answersSpot) reader.report(spot.offset, 'a play needs "answers"');
  const match: Match = matchSpot ? readMatch(reader, matchSpot, 'match') : {};
  const about = fields.get('about');
  if (about) reader.readText(about, 'about');
  const fallback = fields.get('fallback');
  const isFallback = fallback ? reader.readTrue(fallback, 'fallback') : false;
  if (!isFallback && Object.keys(match).length === 0) {
    reader.report(
      spot.offset,
      'a play without "match" takes every request; write "fallback: true"',
    );
  }
  const name = nameSpot && reader.readText(nameSpot, 'play');
  const answers = answersSpot
    ? reader.readList(answersSpot, 'answers').map((item) => readAnswer(reader, item, match))
    : [];
  if (answers.length > 0 && answers.every((answer) => answer.when)) {
    reader.report(answersSpot!.offset, 'answers needs at least one without "when"');
  }
  if (name === undefined) return undefined;
  return { name, file: reader.file, match, isFallback, answers };
}

export function readScreenplay(file: string, text: string): Repertoire {
  const reader = new YamlReader(file, text);
  if (reader.problems.length > 0) return { plays: [], problems: reader.problems };
  const list = reader.readFields(reader.root, 'a screenplay', ['plays']).get('plays');
  if (!list && reader.problems.length === 0) reader.report(0, 'a screenplay needs "plays"');
  const plays: Play[] = [];
  for (const spot of list ? reader.readList(list, 'plays') : []) {
    const play = readPlay(reader, spot);
    if (play && plays.some((other) => other.name === play.name)) {
      reader.report(spot.offset, `two plays are called "${play.name}"`);
    }
    if (play) plays.push(play);
  }
  return { plays, problems: reader.problems };
}

function listFiles(directory: string): string[] {
  return readdirSync(directory)
    .filter((name) => /\.ya?ml$/.test(name))
    .sort()
    .map((name) => join(directory, name));
}

function readFile(file: string): Repertoire {
  const bytes = readFileSync(file);
  if (bytes.length > fileBytesMax) {
    const message = `the file has ${bytes.length} bytes; a screenplay has at most ${fileBytesMax}`;
    return { plays: [], problems: [{ file, line: 1, message }] };
  }
  return readScreenplay(file, bytes.toString('utf8'));
}

/**
 * Earlier directories win: their plays are tried first, and replace later ones of the same name.
 */
export function loadScreenplays(directories: readonly string[]): Repertoire {
  const plays = new Map<string, Play>();
  const problems: Problem[] = [];
  for (const directory of directories) {
    const taken = new Set(plays.keys());
    let files: string[] = [];
    try {
      files = listFiles(directory);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      problems.push({ file: directory, line: 0, message: `cannot be read: ${reason}` });
    }
    for (const file of files) {
      const read = readFile(file);
      problems.push(...read.problems);
      for (const play of read.plays) {
        const other = plays.get(play.name);
        if (other === undefined) plays.set(play.name, play);
        else if (!taken.has(play.name)) {
          const message = `"${play.name}" is already a play of ${basename(other.file)}`;
          problems.push({ file, line: 1, message });
        }
      }
    }
  }
  const all = [...plays.values()];
  return {
    plays: [...all.filter((play) => !play.isFallback), ...all.filter((play) => play.isFallback)],
    problems,
  };
}

export function formatProblem(problem: Problem): string {
  return `${problem.file}:${problem.line}: ${problem.message}`;
}
