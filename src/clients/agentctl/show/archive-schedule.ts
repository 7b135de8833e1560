// Describes how the audit log is archived by itself, and whether that works.
import type { ArchiveScheduleView } from '../../../wire/auditd-ai.ts';
import { formatRelative, formatSpan } from './amounts.ts';

export function describeArchiveSchedule({
  location,
  age_s,
  last_at,
  error,
}: ArchiveScheduleView): string {
  if (error !== null) return `Archiving to ${location} failed: ${error}`;
  const last = last_at === null ? 'no pass yet' : `last ${formatRelative(last_at, Date.now())}`;
  const what = `Segments older than ${formatSpan(age_s * 1_000)} are archived to ${location}`;
  return `${what} once an hour (${last}).`;
}
