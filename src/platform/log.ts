// Logs: one JSON object a line. What a daemon says of itself; what agents did is in the audit log.
import { writeSync } from 'node:fs';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type LogFields = Record<string, unknown>;
export type Log = {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** The same log with fields on every line. */
  with(fields: LogFields): Log;
};

const ORDER: Record<LogLevel, number> = { debug: 0, info: 1, warn: 2, error: 3 };

function plain(value: unknown): unknown {
  if (!(value instanceof Error)) return value;
  const cause = value.cause === undefined ? {} : { cause: plain(value.cause) };
  const code = (value as { code?: unknown }).code;
  return {
    error: value.name,
    message: value.message,
    ...(code === undefined ? {} : { code }),
    stack: value.stack,
    ...cause,
  };
}

export type LogSink = (line: string) => void;

export function makeLog(sink: LogSink, level: LogLevel = 'info', base: LogFields = {}): Log {
  const say = (at: LogLevel, message: string, fields: LogFields = {}): void => {
    if (ORDER[at] < ORDER[level]) return;
    const line: LogFields = { ts: new Date().toISOString(), level: at, ...base, message };
    for (const [key, value] of Object.entries(fields)) line[key] = plain(value);
    sink(JSON.stringify(line));
  };
  return {
    debug: (m, f) => say('debug', m, f),
    info: (m, f) => say('info', m, f),
    warn: (m, f) => say('warn', m, f),
    error: (m, f) => say('error', m, f),
    with: (fields) => makeLog(sink, level, { ...base, ...fields }),
  };
}

/**
 * To the descriptor: process.stderr ends the process when its file is on a disk that is full, or
 * says nothing any more. Who cannot say what they do go on doing it.
 */
export const stderrSink: LogSink = (line) => {
  try {
    writeSync(2, `${line}\n`);
  } catch {
    // The next line may find room again.
  }
};
export const silentLog: Log = makeLog(() => {});
