# A client of the osgt command in base R and jsonlite. It computes nothing: arguments become options of the command, a
# data frame becomes a file, and what the command prints as JSON becomes a data frame.

# The command: option osgt.command, or the one on the path.
.command <- function() {
  command <- Sys.which(getOption("osgt.command", "osgt"))
  if (!nzchar(command)) {
    stop("there is no command osgt on the path: install it with pip install \"osgt[tables]\", ",
         "or name it with options(osgt.command = \"/path/to/osgt\")", call. = FALSE)
  }
  unname(command)
}

# The type that osgt declares for a column, by its class in R; NULL for text. Decimals of R are floats.
.type_of <- function(column) {
  if (inherits(column, "Date")) return("date")
  if (inherits(column, "POSIXt")) return("timestamp")
  if (is.logical(column)) return("boolean")
  if (inherits(column, "integer64") || (is.integer(column) && !is.factor(column))) return("int64")
  if (is.numeric(column) && !is.factor(column)) return("float64")
  if (is.character(column) || is.factor(column)) return(NULL)
  stop("osgt knows no type for a column of class ", class(column)[1], call. = FALSE)
}

# Write a data frame into a folder, as Parquet where arrow is installed and else as CSV; the words of the command for it.
.hand_over <- function(data, name, folder) {
  if (!grepl("^[[:alnum:]_]{1,100}$", name)) stop("name must be letters, digits and _, got ", name, call. = FALSE)
  if (anyDuplicated(names(data)) || any(!nzchar(names(data)))) {
    stop("each column of the data frame needs a name of its own", call. = FALSE)
  }
  types <- lapply(data, .type_of)
  if (getOption("osgt.parquet", requireNamespace("arrow", quietly = TRUE))) {
    file <- file.path(folder, paste0(name, ".parquet"))
    data[] <- lapply(data, function(column) if (is.factor(column)) as.character(column) else column)
    arrow::write_parquet(data, file)
    return(file)
  }
  written <- data
  for (each in names(data)) {
    column <- data[[each]]
    written[[each]] <- switch(
      if (is.null(types[[each]])) "string" else types[[each]],
      timestamp = format(column, "%Y-%m-%d %H:%M:%OS6", tz = "UTC"),
      date = format(column, "%Y-%m-%d"),
      boolean = ifelse(column, "true", "false"),
      int64 = ifelse(is.na(column), NA_character_, format(column, scientific = FALSE, trim = TRUE)),
      float64 = ifelse(is.na(column), NA_character_, formatC(column, digits = 17, format = "g")),
      as.character(column)
    )
  }
  file <- file.path(folder, paste0(name, ".csv"))
  # Missing values are empty fields; text in quotes, also empty text and line ends in it, stays what it is.
  utils::write.table(written, file, sep = ",", dec = ".", na = "", row.names = FALSE, qmethod = "double",
                     quote = which(vapply(written, is.character, NA)), fileEncoding = "UTF-8")
  types <- Filter(Negate(is.null), types)
  c(file, if (length(types)) rbind("--type", paste0(names(types), ":", unlist(types))))
}

# Arguments in R as words of the command: max_rows = 24 is --max-rows 24, TRUE is a flag, several values are repeated.
.options <- function(arguments) {
  if (length(arguments) && (is.null(names(arguments)) || any(!nzchar(names(arguments))))) {
    stop("options of osgt need their names, as in by = \"ward\"", call. = FALSE)
  }
  words <- character()
  for (name in names(arguments)) {
    value <- arguments[[name]]
    option <- paste0("--", gsub("_", "-", name, fixed = TRUE))
    if (is.null(value) || identical(value, FALSE)) next
    if (isTRUE(value)) {
      words <- c(words, option)
    } else {
      texts <- if (is.numeric(value)) formatC(value, digits = 15, format = "fg", width = 1) else as.character(value)
      if (anyNA(value) || !length(value)) stop(name, " must have a value, and none that is missing", call. = FALSE)
      words <- c(words, rbind(option, trimws(texts)))
    }
  }
  words
}

# The environment of the command: wide enough that no sentence is broken, and without the libraries that R puts before
# those of the system for itself, with which another program may not start.
.environment <- function() {
  paths <- strsplit(Sys.getenv("LD_LIBRARY_PATH"), ":", fixed = TRUE)[[1]]
  own <- cumprod(paths == R.home("lib") | startsWith(paths, "/usr/lib/") | endsWith(paths, "/lib/server")) == 1
  c("COLUMNS=1000", paste0("LD_LIBRARY_PATH=", shQuote(paste(paths[!own], collapse = ":"))))
}

# Run the command and read its JSON. What it writes to standard error is shown; a refusal is an error with its words.
.run <- function(words, data, name, arguments, before = character()) {
  folder <- tempfile("osgt-")
  if (!dir.create(folder, mode = "0700")) stop("no folder can be made in ", tempdir(), call. = FALSE)
  on.exit(unlink(folder, recursive = TRUE))
  source <- if (is.data.frame(data)) .hand_over(data, name, folder) else if (is.null(data)) character() else path.expand(data)
  errors <- file.path(folder, "errors")
  words <- c(words, source[seq_len(min(1, length(source)))], before, source[-1], .options(arguments), "--json")
  answer <- suppressWarnings(
    system2(.command(), shQuote(words), stdout = TRUE, stderr = errors, env = .environment())
  )
  said <- trimws(paste(readLines(errors, warn = FALSE, encoding = "UTF-8"), collapse = "\n"))
  code <- attr(answer, "status")
  if (!is.null(code) && code != 0) {
    stop(structure(
      class = c("osgt_error", "error", "condition"),
      list(message = if (nzchar(said)) sub("^Error: ", "", said) else paste("osgt ended with code", code), call = NULL, code = code)
    ))
  }
  if (nzchar(said)) message(said)
  jsonlite::fromJSON(paste(answer, collapse = "\n"), simplifyVector = TRUE)
}

# A table as a data frame with its statement. One without rows keeps its columns.
.frame <- function(table, columns, answer) {
  frame <- if (is.data.frame(table)) table else as.data.frame(sapply(columns$name, function(name) logical()))
  values <- answer[setdiff(names(answer), c("table", "statement"))]
  structure(frame, class = c("osgt_release", "data.frame"), statement = answer$statement, promise = values)
}

# The table of an answer, or a list of its tables by their names.
.released <- function(answer) {
  if (is.null(answer$tables)) return(.frame(answer$table, answer$columns, answer))
  sapply(names(answer$tables), function(name) .frame(answer$table[[name]], answer$tables[[name]]$columns, answer),
         simplify = FALSE)
}

# What people call a data frame: the name of its variable, if it is one.
.name_of <- function(expression) if (is.name(expression)) gsub(".", "_", as.character(expression), fixed = TRUE) else "data"

osgt_release <- function(data = NULL, ..., query = NULL, epsilon = NULL, delta = NULL,
                         name = .name_of(substitute(data))) {
  .released(.run("release", data, name, list(query = query, epsilon = epsilon, delta = delta, ...)))
}

osgt_sql <- function(data, select, ..., epsilon = NULL, delta = NULL, name = .name_of(substitute(data))) {
  .released(.run("sql", data, name, list(epsilon = epsilon, delta = delta, ...), before = select))
}

osgt_plan <- function(data = NULL, ..., query = NULL, epsilon = NULL, delta = NULL,
                      name = .name_of(substitute(data))) {
  .run("plan", data, name, list(query = query, epsilon = epsilon, delta = delta, ...))
}

osgt_statement <- function(release) {
  statement <- attr(release, "statement")
  if (is.null(statement)) stop("this is no release of osgt: it has no statement", call. = FALSE)
  statement
}

print.osgt_release <- function(x, ...) {
  print(structure(as.list(x), class = "data.frame", row.names = attr(x, "row.names")), ...)
  writeLines(c("", strwrap(attr(x, "statement"), width = getOption("width"))))
  invisible(x)
}
