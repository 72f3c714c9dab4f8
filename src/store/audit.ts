/** An action that somebody is about to take: see the table `audit`. */
export interface NewAudit {
  readonly at: number;
  readonly who: string;
  readonly action: string;
  readonly target: string | null;
}

export interface AuditRecord extends NewAudit {
  readonly id: number;
  /** `done`, or the code of an error; null while it goes on, or where the process ended in it. */
  readonly outcome: string | null;
}

export interface AuditFilter {
  readonly who?: string;
  readonly action?: string;
  readonly since?: number;
  /** Only records older than this one. */
  readonly before?: number;
  readonly limit: number;
}

/** The audit log: who did what. */
export interface AuditRecords {
  /** Writes down what somebody is about to do; resolves to the id of the record. */
  beginAudit(deed: NewAudit): Promise<number>;
  endAudit(id: number, outcome: string): Promise<void>;
  /** The newest first. */
  audits(filter: AuditFilter): Promise<readonly AuditRecord[]>;
  /** Drops records made before `before`; at most `limit`. */
  pruneAudits(before: number, limit: number): Promise<number>;
}
