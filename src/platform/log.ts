// A daemon's diagnostic log, one JSON object per line. Actions of agents are in the audit log.
import { writeSync } from 'node:fs';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type LogFields = Record<string, unknown>;
export type Log = {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** Returns a log that adds these fields to every line. */
  with(fields: LogFields): Log;
};

const ORDER: Record<LogLevel, number> = { debug: 0, info: 1, warn: 2, error: 3 };

function toFields(value: unknown): unknown {
  if (!(value instanceof Error)) return value;
  const cause = value.cause === undefined ? {} : { cause: toFields(value.cause) };
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
  const write = (at: LogLevel, message: string, fields: LogFields = {}): void => {
    if (ORDER[at] < ORDER[level]) return;
    const line: LogFields = { ts: new Date().toISOString(), level: at, ...base, message };
    for (const [key, value] of Object.entries(fields)) line[key] = toFields(value);
    sink(JSON.stringify(line));
  };
  return {
    debug: (m, f) => write('debug', m, f),
    info: (m, f) => write('info', m, f),
    warn: (m, f) => write('warn', m, f),
    error: (m, f) => write('error', m, f),
    with: (fields) => makeLog(sink, level, { ...base, ...fields }),
  };
}

/** Not process.stderr: that ends the process, or stops writing, once its disk has been full. */
export const stderrSink: LogSink = (line) => {
  try {
    writeSync(2, `${line}\n`);
  } catch {
    // A daemon works on without its log; the next line may succeed.
  }
};
export const silentLog: Log = makeLog(() => {});
