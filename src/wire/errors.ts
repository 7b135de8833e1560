// The one table of faults: what may go wrong across a boundary, the sentence for it, whether trying
// again can help, and its HTTP and exit status. A fault crosses every link unchanged. Decisions
// (allow, ask, deny) are values and live elsewhere; bugs are asserts and reach callers only as
// `internal`.

type Row = { http: number; exit: number; retry: boolean; hint: string };

export const FAULTS = {
  bad_request: {
    http: 400,
    exit: 2,
    retry: false,
    hint: 'Correct the named field and send it again.',
  },
  bad_json: { http: 400, exit: 2, retry: false, hint: 'Send one JSON document in valid UTF-8.' },
  too_deep: { http: 400, exit: 2, retry: false, hint: 'Nest arrays and objects less deeply.' },
  bad_usage: { http: 400, exit: 2, retry: false, hint: 'See --help for the right form.' },
  unauthenticated: {
    http: 401,
    exit: 3,
    retry: false,
    hint: 'Use the key file of this state directory.',
  },
  forbidden_caller: {
    http: 403,
    exit: 3,
    retry: false,
    hint: 'This route is not for this caller.',
  },
  forbidden_origin: {
    http: 403,
    exit: 3,
    retry: false,
    hint: 'Call from this host, without a foreign Host or Origin header.',
  },
  denied: {
    http: 403,
    exit: 3,
    retry: false,
    hint: 'Do without it, or ask a person to change the rule.',
  },
  not_found: { http: 404, exit: 5, retry: false, hint: 'List what exists and use one of those.' },
  no_such_route: {
    http: 404,
    exit: 2,
    retry: false,
    hint: 'See the API reference for the routes.',
  },
  method_not_allowed: {
    http: 405,
    exit: 2,
    retry: false,
    hint: 'Use one of the methods in the Allow header.',
  },
  conflict: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'Read the current state, then decide again.',
  },
  stale_fence: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'Another activation holds this run now: stop.',
  },
  ended: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'An ended task never restarts; retry makes a new one.',
  },
  cycle: {
    http: 409,
    exit: 2,
    retry: false,
    hint: 'Remove one of the dependencies in the circle.',
  },
  idempotency_mismatch: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'Use a new Idempotency-Key for a different request.',
  },
  replay_differs: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'The recorded call and this one are not the same.',
  },
  agent_paused: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'Resume the agent first: agentctl resume NAME.',
  },
  halted: { http: 409, exit: 1, retry: true, hint: 'Lift the halt first: agentctl unhalt.' },
  too_large: {
    http: 413,
    exit: 2,
    retry: false,
    hint: 'Send less, or store it as an artifact and refer to it.',
  },
  unsupported_media: {
    http: 415,
    exit: 2,
    retry: false,
    hint: 'Send Content-Type: application/json.',
  },
  bad_output: {
    http: 502,
    exit: 70,
    retry: false,
    hint: 'The service answered out of contract; see its log.',
  },
  breaker: {
    http: 429,
    exit: 7,
    retry: false,
    hint: 'The run made no progress; change the approach or end the task.',
  },
  budget: { http: 402, exit: 7, retry: false, hint: 'Raise the budget, or wait until it renews.' },
  limit: { http: 429, exit: 7, retry: false, hint: 'The limit of this task is reached.' },
  rate_limited: {
    http: 429,
    exit: 1,
    retry: true,
    hint: 'Wait as long as retry_after_ms says and try again.',
  },
  overloaded: {
    http: 503,
    exit: 1,
    retry: true,
    hint: 'The queue is full; try again in a moment.',
  },
  unavailable: {
    http: 503,
    exit: 6,
    retry: true,
    hint: 'The service is not there now; try again later.',
  },
  unreachable: {
    http: 502,
    exit: 1,
    retry: false,
    hint: 'Check the name and the port; the place may be down.',
  },
  runtime_down: { http: 503, exit: 6, retry: true, hint: 'Start the runtime: agentctl up.' },
  stopping: {
    http: 503,
    exit: 6,
    retry: true,
    hint: 'The runtime is stopping; try again when it is back.',
  },
  audit_unavailable: {
    http: 503,
    exit: 1,
    retry: true,
    hint: 'Nothing is acted on that cannot be recorded; see auditd-ai.',
  },
  storage_full: {
    http: 507,
    exit: 1,
    retry: true,
    hint: 'Free space on the disk of the state directory.',
  },
  storage_broken: {
    http: 500,
    exit: 70,
    retry: false,
    hint: 'Check the disk (dmesg lists its errors); restore damaged files from a backup.',
  },
  deadline: {
    http: 504,
    exit: 1,
    retry: true,
    hint: 'Ask again; the same Idempotency-Key or call_id does nothing twice.',
  },
  canceled: { http: 409, exit: 1, retry: false, hint: 'Somebody canceled it.' },
  provider_auth: {
    http: 502,
    exit: 1,
    retry: false,
    hint: 'Check the key of this provider: agentctl model test NAME.',
  },
  provider_refused: {
    http: 502,
    exit: 1,
    retry: false,
    hint: 'The provider refused the request; its words are in the message.',
  },
  provider_down: {
    http: 502,
    exit: 1,
    retry: true,
    hint: 'Try again later, or configure a fallback route.',
  },
  provider_malformed: {
    http: 502,
    exit: 1,
    retry: true,
    hint: 'The provider answered out of contract; try again or use another.',
  },
  context_too_long: {
    http: 400,
    exit: 7,
    retry: false,
    hint: 'Send fewer tokens, or use a model with a larger window.',
  },
  data_not_allowed: {
    http: 403,
    exit: 3,
    retry: false,
    hint: 'Use a provider that may see data with this label.',
  },
  bad_config: { http: 500, exit: 78, retry: false, hint: 'Correct the file at the named line.' },
  bad_manifest: {
    http: 400,
    exit: 78,
    retry: false,
    hint: 'Correct the manifest at the named line.',
  },
  state_in_use: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'Use the runtime that holds it, stop it, or take another --state.',
  },
  state_newer: {
    http: 500,
    exit: 78,
    retry: false,
    hint: 'Use the newer agentd that wrote it, or another --state.',
  },
  level_unavailable: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'See agentctl doctor for what this host gives, and why.',
  },
  sandbox_refused: {
    http: 500,
    exit: 1,
    retry: false,
    hint: 'See agentctl doctor, and the log of sandboxd.',
  },
  path_too_long: { http: 400, exit: 78, retry: false, hint: 'Use a shorter XDG_RUNTIME_DIR.' },
  log_damaged: {
    http: 500,
    exit: 1,
    retry: false,
    hint: 'Keep the directory as it is and compare it with a copy.',
  },
  internal: {
    http: 500,
    exit: 70,
    retry: false,
    hint: 'This is a bug; the log has the details under the reference.',
  },
} as const satisfies Record<string, Row>;

export type FaultCode = keyof typeof FAULTS;

/** What crosses a link when a fault does: `{"error": {...}}`. */
export type FaultBody = {
  code: FaultCode;
  message: string;
  hint: string;
  retry: boolean;
  retry_after_ms?: number | undefined;
  details?: Record<string, unknown> | undefined;
};

export type FaultExtra = {
  hint?: string | undefined;
  retryAfterMs?: number | undefined;
  details?: Record<string, unknown> | undefined;
  cause?: unknown;
};

export class Fault extends Error {
  override name = 'Fault';
  code: FaultCode;
  hint: string;
  retryAfterMs: number | undefined;
  details: Record<string, unknown> | undefined;

  constructor(code: FaultCode, message: string, extra: FaultExtra = {}) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause });
    this.code = code;
    this.hint = extra.hint ?? FAULTS[code].hint;
    this.retryAfterMs = extra.retryAfterMs;
    this.details = extra.details;
  }

  get http(): number {
    return FAULTS[this.code].http;
  }

  get retry(): boolean {
    return FAULTS[this.code].retry;
  }

  toBody(): FaultBody {
    return {
      code: this.code,
      message: this.message,
      hint: this.hint,
      retry: this.retry,
      ...(this.retryAfterMs === undefined ? {} : { retry_after_ms: this.retryAfterMs }),
      ...(this.details === undefined ? {} : { details: this.details }),
    };
  }
}

export function fault(code: FaultCode, message: string, extra?: FaultExtra): Fault {
  return new Fault(code, message, extra);
}

/** Former codes that peers of the previous release still send. */
const RENAMED_CODES = new Map<string | undefined, FaultCode>([['not_reachable', 'runtime_down']]);

/** Rebuilds a fault from its body. An unknown code, as from a newer peer, becomes `internal`. */
export function faultFromBody(body: unknown): Fault {
  const error = (body as { error?: Partial<FaultBody> } | null)?.error;
  const code = RENAMED_CODES.get(error?.code) ?? error?.code;
  const known = code !== undefined && code in FAULTS ? code : 'internal';
  return new Fault(known, error?.message ?? 'the response was an error without a message', {
    hint: error?.hint,
    retryAfterMs: error?.retry_after_ms,
    details: error?.details,
  });
}
