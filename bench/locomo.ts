// Reads conversations with questions from a file in the format of LoCoMo. The file is not part of
// this repository: BENCH_LOCOMO names it.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import type { IndexedRecord } from '../src/daemons/memoryd/index/index.ts';

const FILE =
  process.env.BENCH_LOCOMO ??
  join(import.meta.dirname, '..', '..', 'shared', 'data', 'locomo-dev.json');
/** Questions of the fifth category have no answer in the conversation. */
const CATEGORIES = 4;
const MONTHS =
  'January February March April May June July August September October November December'.split(
    ' ',
  );

const turnSchema = z.object({
  speaker: z.string(),
  dia_id: z.string(),
  text: z.string(),
  blip_caption: z.string().optional(),
});
const conversationSchema = z.object({
  conversation: z.record(z.string(), z.unknown()),
  qa: z.array(
    z.object({ question: z.string(), evidence: z.array(z.string()), category: z.number() }),
  ),
});

export type Turn = Omit<IndexedRecord, 'number' | 'scope'> & { ref: string };
export type AskedQuestion = { text: string; category: number; evidence: string[] };
export type Conversation = { turns: Turn[]; questions: AskedQuestion[] };

/** Returns undefined if there is no file, and says so. */
export function readLocomo(): Conversation[] | undefined {
  if (existsSync(FILE))
    return z.array(conversationSchema).parse(readJson(FILE)).map(toConversation);
  console.log(`\nbench: left out: recall of LoCoMo, because ${FILE} is not here (BENCH_LOCOMO)`);
  return undefined;
}

const readJson = (file: string): unknown => JSON.parse(readFileSync(file, 'utf8'));

function toConversation(read: z.infer<typeof conversationSchema>): Conversation {
  const { conversation, qa } = read;
  const sessions = Object.keys(conversation)
    .filter((key) => /^session_\d+$/.test(key))
    .sort((a, b) => Number(a.slice(8)) - Number(b.slice(8)));
  const turns = sessions.flatMap((session) => {
    const atMs = timeOf(String(conversation[`${session}_date_time`]));
    return z
      .array(turnSchema)
      .parse(conversation[session])
      .map(
        (turn, seq): Turn => ({
          ref: turn.dia_id,
          thread: session,
          seq,
          text: turn.text,
          caption: turn.blip_caption,
          speaker: turn.speaker,
          occurredAtMs: atMs,
          recordedAtMs: atMs,
        }),
      );
  });
  const questions = qa
    .map(({ question, evidence, category }) => ({
      text: question,
      category,
      evidence: [...new Set(evidence.flatMap((ids) => ids.split(/[;,\s]+/).filter(Boolean)))],
    }))
    .filter(({ category, evidence }) => category <= CATEGORIES && evidence.length > 0);
  return { turns, questions };
}

/** For example "1:56 pm on 8 May, 2023". */
function timeOf(text: string): number {
  const found = /(\d+):(\d+) (am|pm) on (\d+) (\w+), (\d+)/.exec(text);
  if (found === null) throw new Error(`"${text}" is not a date`);
  const [, hour, minute, half, day, month, year] = found;
  const hours = (Number(hour) % 12) + (half === 'pm' ? 12 : 0);
  return Date.UTC(Number(year), MONTHS.indexOf(month!), Number(day), hours, Number(minute));
}
