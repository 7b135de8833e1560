// The messages between maild and its parser.

export type ParseRequest = { id: number; raw: Uint8Array; withContent: boolean };

export type ParsedAttachment = {
  name: string;
  mimeType: string;
  sizeBytes: number;
  /** Only when asked for. */
  content?: Uint8Array;
};

export type ParsedMail = {
  messageId: string | null;
  /** Ids without angle brackets, the nearest first. */
  answers: string[];
  subject: string;
  /** The address of the field From, in lower case; null if there is none, or several. */
  from: string | null;
  text: string;
  /** Null if it has no plain text: HTML hides what is quoted. */
  firstLine: string | null;
  attachments: ParsedAttachment[];
  /** Written by a program or sent to a list (RFC 3834, RFC 2919): nothing answers it. */
  isAutomatic: boolean;
};

export type ParseResponse = { id: number } & ({ mail: ParsedMail } | { problem: string });
