// Defines the compiled form of a screenplay, after the YAML has been read and checked.
import type { WireName } from '../normalized-request.ts';
import type { Template, ValueTemplate } from './template.ts';

export type Pattern =
  | { readonly kind: 'equal'; readonly value: string }
  | { readonly kind: 'regex'; readonly regex: RegExp };

export type MatchConditions = {
  readonly agent?: readonly Pattern[];
  readonly model?: readonly Pattern[];
  readonly goal?: Pattern;
  readonly system?: Pattern;
  readonly lastUser?: Pattern;
  readonly userText?: Pattern;
  readonly lastResult?: Pattern;
  readonly step?: readonly number[];
  readonly hasTool?: readonly string[];
  readonly wire?: WireName;
};

export const DEFECT_KINDS = [
  'cut_mid_stream',
  'malformed_json',
  'endless',
  'unknown_tool',
  'bad_arguments',
  'slow_bytes',
] as const;
export type DefectKind = (typeof DEFECT_KINDS)[number];

export const STOP_REASONS = [
  'end',
  'tool_calls',
  'max_tokens',
  'stop_sequence',
  'refusal',
] as const;
export type ScriptedStopReason = (typeof STOP_REASONS)[number];

export const USAGE_KEYS = [
  'input_tokens',
  'output_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'reasoning_tokens',
] as const;
export type UsageOverride = { readonly [K in (typeof USAGE_KEYS)[number]]?: number };

/** A literal number, or a template that renders to one. */
export type NumberTemplate = number | Template;

export type ScriptedCall = { readonly tool: string; readonly arguments: ValueTemplate };

export type ErrorTemplate = {
  readonly status: NumberTemplate;
  readonly type?: string;
  readonly code?: string;
  readonly message: Template;
  readonly retryAfterSeconds?: NumberTemplate;
  /** Number of times the same request fails before it succeeds; unset: always fails. */
  readonly times?: NumberTemplate;
  /** If streaming, sends the error as an event after the stream's start, with status 200. */
  readonly isInStream: boolean;
};

/** One entry of `answers`. */
export type ScriptedReply = {
  readonly when?: MatchConditions;
  /** Number of steps this reply serves. */
  readonly times: NumberTemplate | 'forever';
  readonly text?: Template;
  readonly thinking?: Template;
  readonly calls: readonly ScriptedCall[];
  readonly delayMs: NumberTemplate;
  readonly error?: ErrorTemplate;
  readonly defect?: DefectKind;
  readonly stopReason?: ScriptedStopReason;
  readonly usage?: UsageOverride;
};

/** One entry of `plays`. */
export type Scenario = {
  readonly name: string;
  readonly file: string;
  readonly match: MatchConditions;
  readonly isFallback: boolean;
  readonly replies: readonly ScriptedReply[];
};

export type ScreenplayProblem = {
  readonly file: string;
  readonly line: number;
  readonly message: string;
};
